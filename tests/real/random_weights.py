"""Write a GGUF of random weights to the path that is named: a Llama of two layers, the same each
time. Run by a Python that has `gguf`, which this project has not."""

from __future__ import annotations

import sys
from pathlib import Path

import gguf  # type: ignore[import-not-found]  # (see above)
import numpy as np

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 4, 128, 8192
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "


def write(path: Path) -> None:
    draw = np.random.default_rng(7)
    file = gguf.GGUFWriter(str(path), "llama")
    file.add_name("random")
    file.add_context_length(CONTEXT)
    file.add_embedding_length(WIDTH)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(WIDTH // HEADS)
    words = _vocabulary(file)

    def tensor(name: str, *shape: int) -> None:
        file.add_tensor(name, (draw.standard_normal(shape) * 0.3).astype(np.float32))

    def norm(name: str) -> None:
        file.add_tensor(name, np.ones(WIDTH, np.float32))

    tensor("token_embd.weight", words, WIDTH)
    norm("output_norm.weight")
    tensor("output.weight", words, WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm.weight")
        norm(f"{block}.ffn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"{block}.{name}.weight", WIDTH, WIDTH)
        tensor(f"{block}.ffn_gate.weight", INNER, WIDTH)
        tensor(f"{block}.ffn_up.weight", INNER, WIDTH)
        tensor(f"{block}.ffn_down.weight", WIDTH, INNER)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def _vocabulary(file: gguf.GGUFWriter) -> int:
    """Every byte, and each printable ASCII character; gives how many."""
    kind = gguf.TokenType
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
    plain = [bytes([byte]) for byte in range(32, 127)]
    kinds = [kind.UNKNOWN, kind.CONTROL, kind.CONTROL, *[kind.BYTE] * 256]
    tokens, kinds = [*tokens, *plain], [*kinds, *[kind.NORMAL] * len(plain)]
    file.add_tokenizer_model("llama")
    file.add_token_list(tokens)
    file.add_token_scores([0.0] * len(tokens))
    file.add_token_types(kinds)
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_unk_token_id(0)
    file.add_chat_template(TEMPLATE)
    return len(tokens)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
