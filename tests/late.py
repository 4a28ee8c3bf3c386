"""What takes long to import and few tests use, imported at its first use: each process that shares
the tests would do it to find them, and spend a third of that time on it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING


class Late(ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):  # as pytest asks each name of a module that it looks through
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)


if TYPE_CHECKING:
    import anthropic
    import openai
    from scipy import special, stats
    from statsmodels.regression import linear_model
    from statsmodels.stats import inter_rater, multitest, proportion
else:
    anthropic, openai = Late("anthropic"), Late("openai")
    special, stats = Late("scipy.special"), Late("scipy.stats")
    linear_model = Late("statsmodels.regression.linear_model")
    inter_rater = Late("statsmodels.stats.inter_rater")
    multitest = Late("statsmodels.stats.multitest")
    proportion = Late("statsmodels.stats.proportion")

__all__ = [
    "anthropic",
    "inter_rater",
    "linear_model",
    "multitest",
    "openai",
    "proportion",
    "special",
    "stats",
]
