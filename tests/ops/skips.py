"""The samples that the sweep of the operator table leaves out, and why. A key is an operator's OpInfo name, or a pair of it and a dtype ("bool") or a mode ("dynamic"). A run prints all
skips with their counts at its end; in a plain run they must equal SKIPPED."""

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
    "nn.functional.fractional_max_pool2d": RANDOM,
    "nn.functional.fractional_max_pool3d": RANDOM,
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
    "item": PYTHON,
    "tolist": PYTHON,
    "equal": PYTHON,
    "allclose": PYTHON,
}

# Operators that compile for the CPU but not for GPUs, with the reason: none.
NOT_ON_GPUS: dict = {}


# Skips of a plain run: {reason: number of samples}. Another number, or an unlisted reason, fails the run.
SKIPPED = {
    "refused: aten.conv_transposeNd.input: convolution: a kernel of dynamic size": 4,
    "refused: aten.conv_transposeNd.default: convolution: a kernel of dynamic size": 1,
    "refused: aten._native_batch_norm_legit.default: batch_norm in training mode (call model.eval() first)": 2,
    "refused: aten.linalg_inv_ex.default: the inverse of matrices whose size is open: engines have known sizes up to N": 1,
    "refused: aten.linalg_slogdet.default: the determinant of matrices of N x N: engines have sizes from N to N": 2,
    "refused: aten.linalg_solve_triangular.default: the triangular solution of matrices whose size is open: engines have kno": 1,
    "refused: aten.logdet.default: the determinant of matrices of N x N: engines have sizes from N to N": 3,
    "refused: aten.linalg_householder_product.default: reflections of sN: engines have known numbers of them up to N": 1,
    "refused: aten.lu_unpack.default: the LU factors of matrices whose size is open: engines have known sizes up to N": 1,
    "refused: aten.matrix_exp.default: the exponential of matrices whose size is open: engines have known sizes up to N": 1,
    "refused: aten.ormqr.default: reflections of sN: engines have known numbers of them up to N": 1,
    "torch cannot capture it: DataDependentOutputException: aten.equal.default": 1,
    UNDEFINED: 14,
    RANDOM: 9,
}

# A plain run covers at least so many combinations of overload, dtype and static or dynamic sizes. Raise it when it grows; it never sinks.
COVERED = 607


def reason(name: str, dtype: str, mode: str) -> str | None:
    for key in (name, (name, dtype), (name, mode)):
        if key in SKIPS:
            return SKIPS[key]
    return None
