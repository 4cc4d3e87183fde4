"""What the sweep of the operator table leaves out, and why. A key is an operator's OpInfo name, or (name, what narrows it): a dtype
("bool") or a mode ("dynamic"). Everything listed here is printed with its count at the end of a run."""

RANDOM = "random numbers: eager's exact ones are not promised"
UNDEFINED = "the result is undefined memory"
PYTHON = "answers with a Python value or a layout, not a tensor computation"

SKIPS: dict = {
    "empty": UNDEFINED,
    "empty_like": UNDEFINED,
    "empty_permuted": UNDEFINED,
    "empty_strided": UNDEFINED,
    "new_empty": UNDEFINED,
    "new_empty_strided": UNDEFINED,
    "nn.functional.dropout": RANDOM,
    "nn.functional.dropout2d": RANDOM,
    "nn.functional.dropout3d": RANDOM,
    "nn.functional.alpha_dropout": RANDOM,
    "nn.functional.feature_alpha_dropout": RANDOM,
    "nn.functional.rrelu": RANDOM,
    "bernoulli": RANDOM,
    "cauchy": RANDOM,
    "exponential": RANDOM,
    "geometric": RANDOM,
    "log_normal": RANDOM,
    "multinomial": RANDOM,
    "normal": RANDOM,
    "rand_like": RANDOM,
    "randint": RANDOM,
    "randint_like": RANDOM,
    "randn": RANDOM,
    "randn_like": RANDOM,
    "uniform": RANDOM,
    "as_strided": PYTHON,
    "item": PYTHON,
    "tolist": PYTHON,
    "equal": PYTHON,
    "allclose": PYTHON,
}

# What compiles for the CPU and not for GPUs, by operator, and why: nothing does.
NOT_ON_GPUS: dict = {}


def reason(name: str, dtype: str, mode: str) -> str | None:
    for key in (name, (name, dtype), (name, mode)):
        if key in SKIPS:
            return SKIPS[key]
    return None
