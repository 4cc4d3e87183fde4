"""The operators that programs call: every definition of ingot's table, and torch's variants of it that write in place or to `out`. A new definition is included automatically."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
from random_program import operator

from ingot.engine import _library

# Defined after the fixed seeds were drawn: with them each seed is another program. `--kinds newer=1` draws them too.
NEWER = """
    _int_mm.default _logcumsumexp.default _stack.default alias_copy.default bartlett_window.default bartlett_window.periodic binary_cross_entropy.default
    binary_cross_entropy_with_logits.default bincount.default blackman_window.default blackman_window.periodic block_diag.default cross_entropy_loss.default
    detach_copy.default diagonal_copy.default expand_copy.default frexp.Tensor hamming_window.default hamming_window.periodic hamming_window.periodic_alpha
    hamming_window.periodic_alpha_beta hann_window.default hann_window.periodic huber_loss.default i0.default kaiser_window.beta kaiser_window.default kaiser_window.periodic
    lcm.default ldexp.Tensor mse_loss.default multi_margin_loss.default multilabel_margin_loss.default mvlgamma.default narrow_copy.default nll_loss.default nll_loss2d.default
    nll_loss_nd.default nonzero_static.default permute_copy.default polygamma.default put.default renorm.default repeat_interleave.Tensor repeat_interleave.self_Tensor
    rrelu.default select_copy.int slice_copy.Tensor smooth_l1_loss.default soft_margin_loss.default special_bessel_j0.default special_bessel_j1.default
    special_bessel_y0.default special_bessel_y1.default special_chebyshev_polynomial_t.n_scalar special_chebyshev_polynomial_u.n_scalar special_chebyshev_polynomial_v.n_scalar
    special_chebyshev_polynomial_w.n_scalar special_erfcx.default special_hermite_polynomial_h.n_scalar special_hermite_polynomial_he.n_scalar special_i0.default
    special_i0e.default special_i1.default special_i1e.default special_laguerre_polynomial_l.n_scalar special_legendre_polynomial_p.n_scalar special_log_ndtr.default
    special_modified_bessel_i0.default special_modified_bessel_i1.default special_modified_bessel_k0.default special_modified_bessel_k1.default special_multigammaln.default
    special_ndtri.default special_polygamma.default special_scaled_modified_bessel_k0.default special_scaled_modified_bessel_k1.default
    special_shifted_chebyshev_polynomial_t.n_scalar special_shifted_chebyshev_polynomial_u.n_scalar special_shifted_chebyshev_polynomial_v.n_scalar
    special_shifted_chebyshev_polynomial_w.n_scalar special_spherical_bessel_j0.default special_zeta.default special_zeta.other_scalar special_zeta.self_scalar
    split_copy.Tensor split_with_sizes_copy.default squeeze_copy.default squeeze_copy.dim squeeze_copy.dims t_copy.default transpose_copy.int tril_indices.default
    triu_indices.default unbind_copy.int unfold_copy.default unsafe_split_with_sizes.default unsqueeze_copy.default view_copy.default
    _linalg_det.default _linalg_slogdet.default _linalg_solve_ex.default cholesky_solve.default det.default linalg_cholesky_ex.default linalg_det.default linalg_inv_ex.default
    linalg_lu_factor_ex.default linalg_qr.default linalg_slogdet.default linalg_solve_ex.default linalg_solve_triangular.default logdet.default slogdet.default
    triangular_solve.default corrcoef.default cov.default linalg_householder_product.default linalg_lu.default linalg_lu_solve.default lu_unpack.default ormqr.default
    as_strided.default as_strided_copy.default alpha_dropout_.default dropout_.default feature_alpha_dropout.default feature_alpha_dropout_.default feature_dropout_.default
    embedding_renorm.default fractional_max_pool2d.default fractional_max_pool3d.default cholesky.default cholesky_inverse.default fft_fftfreq.default fft_rfftfreq.default
""".split()

# Operators whose results cannot be compared in any program, with the reason.
LEFT_OUT = {
    "aten.empty.memory_format": "undefined memory",
    "aten.empty_like.default": "undefined memory",
    "aten.new_empty.default": "undefined memory",
    "aten.lift_fresh.default": "torch's own mark of a constant in a graph, which no model calls",
    "aten.unsafe_split.Tensor": "whether its parts share memory is not to be relied on",
    "aten.unsafe_chunk.default": "whether its parts share memory is not to be relied on",
    "aten._unsafe_view.default": "whether its result shares memory is not to be relied on",
    "aten._native_batch_norm_legit_functional.default": "torch's own step of a batch norm, whose types while tracing are not eager's",
    "aten._native_batch_norm_legit.default": "torch's own step of a batch norm, which writes without saying so",
    "aten._native_batch_norm_legit.no_stats": "torch's own step of a batch norm, whose types while tracing are not eager's",
    **dict.fromkeys(
        ("aten.embedding_bag.default", "aten.embedding_bag.padding_idx", "aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"),
        "its results but the first are for training, and their shapes torch's own affair",
    ),
    "aten.max_unpool2d.default": "its indices are those of a max_pool",
    "aten.max_unpool3d.default": "its indices are those of a max_pool",
    "aten._transformer_encoder_layer_fwd.default": "no draw of its fifteen operands fits: tests/operators/test_transformer_operators.py",
    "aten._grouped_mm.default": "its offsets go up, and its rows lie on 16 bytes: tests/operators/test_transformer_operators.py",
    "transformers.grouped_mm_fallback.default": "transformers' own, whose offsets go up: tests/operators/test_transformer_operators.py",
    "prims.div.default": "torch's own step of a decomposition, which no model calls",
    "prims.convert_element_type.default": "torch's own step of a decomposition, which no model calls",
    "prims.sum.default": "torch's own step of a decomposition, which no model calls",
    "prims.broadcast_in_dim.default": "torch's own step of a decomposition, which no model calls",
    **dict.fromkeys(
        ("aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input", "aten.lstm_cell.default", "aten.gru_cell.default", "aten.rnn_tanh_cell.default", "aten.rnn_relu_cell.default"),
        "no draw of its weights fits: tests/operators/test_recurrent.py",
    ),
    **dict.fromkeys(
        (f"aten.{name}" for name in """
            cudnn_batch_norm.default cudnn_convolution.default cudnn_convolution_transpose.default cudnn_convolution_relu.default cudnn_convolution_add_relu.default cudnn_grid_sampler.default cudnn_affine_grid_generator.default _cudnn_rnn.default
            _cudnn_ctc_loss.default miopen_batch_norm.default miopen_convolution.default miopen_depthwise_convolution.default miopen_convolution_transpose.default miopen_convolution_relu.default miopen_convolution_add_relu.default miopen_rnn.default
            mkldnn_convolution.default mkldnn_rnn_layer.default convolution_overrideable.default _convolution.default _thnn_fused_lstm_cell.default _thnn_fused_gru_cell.default _addmm_activation.default _batch_norm_no_update.default _scaled_dot_product_fused_attention_overrideable.default _convolution.deprecated
        """.split()),
        "the form of one library or device, which no model calls: tests/ops/test_dispatched.py",
    ),
    **dict.fromkeys(("aten._ctc_loss.default", "aten._ctc_loss.Tensor", "aten.ctc_loss.IntList", "aten.ctc_loss.Tensor"), "eager does not check its targets: tests/operators/test_losses.py"),
    **dict.fromkeys(
        ("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default", "aten.multilabel_margin_loss_forward.default", "aten.log_sigmoid_forward.default"),
        "its results but the first are for training",
    ),
    "aten.segment_reduce.default": "its lengths add up to an axis: tests/ops/test_ops.py",
    "aten.mode.default": "which of equal elements it finds is undefined",
    "aten.unfold_backward.default": "torch's own step of a gradient, which no model calls",
    "aten._trilinear.default": "torch's own step of a decomposition, which no model calls",
    **dict.fromkeys(("aten.empty_permuted.default", "aten.empty_strided.default", "aten.new_empty_strided.default"), "undefined memory"),
    "aten._linalg_check_errors.default": "it has no result: tests/operators/test_linear_algebra.py",
    **{f"aten.special_bessel_{n}.default": "torch's own error in float64 is up to 9e-7" for n in ("j0", "j1", "y0", "y1")},
    **dict.fromkeys(("aten.view.dtype", "aten.view_copy.dtype"), "the exact run computes in float64, whose bits are others: tests/layouts/test_bits.py"),
    **dict.fromkeys(
        ("aten.linalg_matrix_exp.default", "aten.matrix_exp.default"), "it is computed in float64, so where float32 overflows eager has NaN, and ingot infinity: tests/operators/test_linear_algebra.py"
    ),
    **{f"aten.{n}.default": "torch's own error in float64 is up to 2e-9" for n in ("igamma", "igammac", "special_gammainc", "special_gammaincc")},
    **{f"aten.special_{n}chebyshev_polynomial_{kind}.n_scalar": "torch gives undefined memory for NaN" for n in ("", "shifted_") for kind in "tuvw"},
    "aten.special_laguerre_polynomial_l.n_scalar": "torch gives undefined memory for NaN",
    "aten._logcumsumexp.out": "torch writes outside of a result of another size",
    **{f"aten.{n}_loss.out": "torch gives its result the memory of the unreduced loss" for n in ("smooth_l1", "huber", "mse", "soft_margin")},
    "aten.binary_cross_entropy.out": "torch does not check its shapes",
    "aten.native_dropout.default": "torch's trace puts its result in the place of its operand, wherever the program names that",
    "aten.alpha_dropout.default": "random numbers",
    "aten.feature_dropout.default": "random numbers",
    "aten.nonzero.default": "its result is row-major; eager's is the transpose of one, which torch does not record",
    "aten.argwhere.default": "its result is row-major; eager's is the transpose of one, which torch does not record",
    **dict.fromkeys(
        (f"aten.{n}.default" for n in ("_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive")), "what follows it has sizes that torch.export asks about: tests/operators/test_unique.py"
    ),
    "aten.masked_select.default": "what follows it has sizes that torch.export asks about: tests/sizes/test_regions.py",
}

# Operators that no program of the fixed seeds calls, with the reason.
NEVER = {
    "aten._assert_tensor_metadata.default": "it has no result",
    "aten.native_channel_shuffle.default": "eager's result lies as a permuted view, ingot's is row-major",
}


@dataclass(frozen=True)
class Operator:
    """kind: "pure" (new memory), "view" (may share its operand's), "write" (changes its operand), "out" (writes a tensor given as `out`)"""

    target: str
    row: str
    kind: str

    @property
    def schema(self):
        return operator(self.target)._schema


def _kind(schema) -> str:
    if any(a.is_out for a in schema.arguments):
        return "out"
    if schema.is_mutable:
        return "write"
    return "view" if any(r.alias_info is not None for r in schema.returns) else "pure"


def _writing(row: str):
    """torch's overloads that compute the same and write in place (add_.Tensor for add.Tensor), and those with `out`."""
    namespace, name, overload = row.split(".")
    packet = getattr(getattr(torch.ops, namespace), name + "_", None) if not name.endswith("_") else None
    if packet is not None and overload in packet.overloads():
        yield f"{namespace}.{name}_.{overload}"
    pure = [(a.name, str(a.type)) for a in operator(row)._schema.arguments]
    packet = getattr(getattr(torch.ops, namespace), name)
    for other in packet.overloads():
        schema = getattr(packet, other)._schema
        if sum(a.is_out for a in schema.arguments) == 1 and [(a.name, str(a.type)) for a in schema.arguments if not a.is_out] == pure:
            yield f"{namespace}.{name}.{other}"


def table(newer=False) -> dict[str, list[Operator]]:
    """The operators by kind. newer: with those of NEWER."""
    left_out = LEFT_OUT.keys() | (() if newer else {f"aten.{name}" for name in NEWER})
    found = defaultdict(list)
    for row in (r["name"] for r in _library.ops() if r["name"] not in left_out):
        for target in (target for target in (row, *_writing(row)) if target not in left_out):
            made = Operator(target, row, "")
            found[_kind(made.schema)].append(Operator(target, row, _kind(made.schema)))
    return dict(found)
