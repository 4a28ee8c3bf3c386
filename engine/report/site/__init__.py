"""Results and every transcript behind them as a folder of pages that any web host can serve."""
