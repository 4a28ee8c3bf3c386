"""The tables whose rows are facts, and the last `seq` that any of them has."""

# ruff: noqa: S608  (SQL is put together from names of this module, never from values)

from __future__ import annotations

from typing import Final

TABLES: Final = {
    "run": "benchmarks config version host pid",
    "note": "kind benchmark stage text",
    "state": "benchmark stage unit target was state reason",
    "metric": "benchmark metric_id name track definition examples source depends",
    "scenario": "benchmark scenario_id metric_id persona user_goal latent_goal landmarks "
    "demographic system_prompt extra source removed depends",
    "take": "benchmark scenario_id target sample number scenario user_model model scripted depends",
    "take_end": "take stop_reason finished detail",
    "message": "take turn speaker text thought landmark done finish reasoning digest served_by",
    "verdict": "take metric_id track judge source number present passed unscored justification "
    "quotes counted_before counted depends served_by",
    "attempt": "benchmark stage unit target role model outcome status duration_ms input_tokens "
    "cached_tokens output_tokens cost_usd detail first_token_ms served other route reported",
    "learned": "model step dropped",
}
"""The tables that share one rising `seq`, each with its columns behind `seq` and `at`."""

LAST_SEQ: Final = "SELECT max({}, 0)".format(
    ", ".join(f"coalesce((SELECT max(seq) FROM {table}), 0)" for table in TABLES)
)
