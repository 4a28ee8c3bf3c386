"""People's labels: samples, storage, and calibration of the judges."""
