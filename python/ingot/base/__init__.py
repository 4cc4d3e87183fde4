"""Files, processes, texts: what every room uses."""
