"""The headless commands. They return an exit code and open no screen."""
