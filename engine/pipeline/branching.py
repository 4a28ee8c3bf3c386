"""The configuration that a branch runs under: the workspace's, with another model in one role."""

from __future__ import annotations

from engine.benchmark import Role
from engine.branches import Branch
from engine.config.schema import Config


def config_of(config: Config, benchmark: str) -> Config:
    """What a benchmark or a branch runs under.

    Raises `InputError` for a branch whose model is not in the configuration any more.
    """
    branch = Branch.parse(benchmark)
    if branch is None:
        return config
    model = config.model_named(branch.model)
    match branch.swap:
        case Role.USER:
            # whoever writes metrics and scenarios stays, also where that was the user model
            return config.model_copy(
                update={"user_model": model, "generator_model": config.generator}
            )
        case Role.GENERATOR:
            return config.model_copy(update={"generator_model": model})
        case _:
            return config
