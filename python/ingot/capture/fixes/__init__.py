"""Rewrites of captured graphs, and switches while torch traces: what torch's own graph gets wrong or leaves out."""
