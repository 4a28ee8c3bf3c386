"""The words that `source` takes by themselves, and the names of the offline models."""

from __future__ import annotations

from typing import Final

OFFLINE: Final = "offline"
HTTP: Final = "http"
"""An application, asked as its target's `request` says."""

OFFLINE_MODELS: Final = frozenset(
    {
        "generator",
        "generator-terse",
        "user",
        "user-blunt",
        "steadfast",
        "erratic",
        "pushover",
        "evaluator",
        "evaluator-strict",
    }
)
"""Scripted stand-ins for language models; they need no key and cost nothing."""

KNOWN_SOURCES: Final = frozenset(
    {
        OFFLINE,
        "openai",
        "anthropic",
        "cerebras",
        "cohere",
        "deepinfra",
        "deepseek",
        "fireworks",
        "gemini",
        "google",
        "groq",
        "huggingface",
        "mistral",
        "moonshot",
        "nvidia",
        "openrouter",
        "perplexity",
        "publicai",
        "sambanova",
        "together",
        "xai",
        "llamacpp",
        "lmstudio",
        "ollama",
        "vllm",
    }
)
"""Sources whose address the providers know; any other needs a `base_url`."""
