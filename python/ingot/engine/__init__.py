"""Plans that run: engines and sessions on numpy arrays, without torch; and the operators of torch's dispatcher that run engines on tensors."""
