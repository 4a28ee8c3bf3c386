"""The addresses of well-known providers, and whose key goes to which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PUBLIC_ADDRESSES: Final[Mapping[str, str]] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "cerebras": "https://api.cerebras.ai/v1",
    "cohere": "https://api.cohere.ai/compatibility/v1",
    "deepinfra": "https://api.deepinfra.com/v1/openai",
    "deepseek": "https://api.deepseek.com/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "google": "https://generativelanguage.googleapis.com/v1beta/openai",
    "groq": "https://api.groq.com/openai/v1",
    "huggingface": "https://router.huggingface.co/v1",
    "mistral": "https://api.mistral.ai/v1",
    "moonshot": "https://api.moonshot.ai/v1",
    "nvidia": "https://integrate.api.nvidia.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "perplexity": "https://api.perplexity.ai",
    "publicai": "https://api.publicai.co/v1",
    "sambanova": "https://api.sambanova.ai/v1",
    "together": "https://api.together.xyz/v1",
    "xai": "https://api.x.ai/v1",
    "llamacpp": "http://127.0.0.1:8080/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "vllm": "http://127.0.0.1:8000/v1",
}
"""Addresses of well-known sources, unless `base_url` names another."""

KEYLESS: Final = frozenset({"llamacpp", "lmstudio", "ollama", "vllm"})
"""Local servers, which ask for no key."""

_OTHER_NAMES: Final[Mapping[str, str]] = {"HF_TOKEN": "huggingface"}
"""Variables that are usual besides `OPENAI_API_KEY` and the like, and the source of each."""

USUAL_VARIABLES: Final[Mapping[str, str]] = {
    **{f"{source.upper()}_API_KEY": address for source, address in PUBLIC_ADDRESSES.items()},
    **{variable: PUBLIC_ADDRESSES[source] for variable, source in _OTHER_NAMES.items()},
}
"""The usual variables of keys, each with the address of its own provider."""
