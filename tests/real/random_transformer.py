"""Write a folder for `transformers` with a Llama of random weights, the same each time. Run by a
Python that has `transformers` and `torch`, which this project has not."""

from __future__ import annotations

import sys

import tokenizers  # type: ignore[import-not-found]  # (see above)
import torch  # type: ignore[import-not-found]  # (see above)
import transformers  # type: ignore[import-not-found]  # (see above)
from tokenizers import decoders, models, pre_tokenizers

CONTEXT = 8192
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
BEGIN, END = "<s>", "</s>"


def write(folder: str) -> None:
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=_vocabulary(folder),
        # heads of 64: vLLM's attention on CPUs takes none of 16
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.5,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def _vocabulary(folder: str) -> int:
    """One token for each byte; returns how many tokens there are."""
    names = [BEGIN, END, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {name: number for number, name in enumerate(names)}
    bytewise = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytewise, bos_token=BEGIN, eos_token=END, pad_token=END
    )
    made.chat_template = TEMPLATE
    made.save_pretrained(folder)
    return len(names)


if __name__ == "__main__":
    write(sys.argv[1])
