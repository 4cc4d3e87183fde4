"""Rules for low precision that look at the graph, and the bound on its error."""
