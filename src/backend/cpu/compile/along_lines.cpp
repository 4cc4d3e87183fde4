#include "backend/cpu/compile/along_lines.h"

#include <algorithm>

#include "backend/cpu/kernels/conv/run/tuning.h"

namespace ingot::backend::cpu {

namespace {

namespace tuning = kernels::conv::tuning;

// True for the sum, perhaps with a bias, perhaps within bounds: the epilogues of line tiles.
bool is_short(const FusedBody& body) {
  using Kind = Instruction::Kind;
  if (body.stores.size() != 1 || body.operands[body.stores[0].operand] != ir::DType::f32) return false;
  auto is = [&](Reg r, Kind kind) { return body.code[r].kind == kind; };
  auto is_map = [&](Reg r, ir::Op op) { return is(r, Kind::map) && body.code[r].op == op && body.code[r].dtype == ir::DType::f32; };
  Reg at = body.stores[0].value;
  if (is_map(at, ir::Op::relu)) {
    at = body.code[at].in[0];
  } else if (is_map(at, ir::Op::min) && is(body.code[at].in[0], Kind::literal)) {
    at = body.code[at].in[1];
    if (!is_map(at, ir::Op::max) || !is(body.code[at].in[0], Kind::literal)) return false;
    at = body.code[at].in[1];
  }
  if (is_map(at, ir::Op::add)) {
    Reg sum = body.code[at].in[0], bias = body.code[at].in[1];
    if (!is(sum, Kind::accumulator)) std::swap(sum, bias);
    const Instruction& load = body.code[bias];
    if (load.kind != Kind::load || !load.in.empty() || !load.lower.empty() || body.operands[load.operand] != ir::DType::f32) return false;
    at = sum;
  }
  return is(at, Kind::accumulator);
}

bool moves(const ir::AffineMap::Axis& axis, size_t index) {
  return std::any_of(axis.terms.begin(), axis.terms.end(), [&](const ir::AffineMap::Term& t) { return t.axis == index && t.coefficient != 0; });
}

// True if one index alone moves along the axis, which it walks once.
bool is_index(const ir::AffineMap& map, const StridedLayout& a, size_t axis) {
  const ir::AffineMap::Axis& of = map.axes[axis];
  return of.offset == ir::Dim(0) && of.terms.size() == 1 && of.terms[0].coefficient == 1 && a.dims[axis] == map.dims[of.terms[0].axis];
}

}  // namespace

std::optional<int64_t> line_length(const ir::AffineMap& map, const StridedLayout& a, const LineResults& kept, const FusedBody& body) {
  const ir::Dim one(1);
  if (!is_short(body)) return std::nullopt;
  size_t x = kept.steps.size();
  while (x > 0 && (map.dims[x - 1] == one || !(kept.steps[x - 1] == one))) --x;
  const bool strided = x == 0;  // a phase of a transposed convolution
  for (size_t i = kept.steps.size(); strided && i > 0 && x == 0; --i) {
    if (!(map.dims[i - 1] == one) && kept.steps[i - 1].constant().value_or(0) > 1) x = i;
  }
  if (x-- == 0 || kept.steps[x].constant().value_or(1) > tuning::max_line_step) return std::nullopt;
  const auto length = map.dims[x].constant();
  if (!length) return std::nullopt;
  for (const std::vector<ir::Dim>& steps : kept.loads) {
    if (!(steps[x] == ir::Dim(0))) return std::nullopt;
  }
  // The index along lines moves along one axis of A, and with it at most one summed index.
  size_t along = map.axes.size();
  for (size_t j = 0; j < map.axes.size(); ++j) {
    if (!moves(map.axes[j], x)) continue;
    if (along != map.axes.size()) return std::nullopt;
    along = j;
  }
  if (along == map.axes.size()) return std::nullopt;
  // Outputs may have gaps between them, as windows expressed by strides have.
  const auto step = a.strides[along].constant();
  if (!step || *step < 1 || *step > tuning::max_line_step) return std::nullopt;
  const bool may_step = !strided && is_index(map, a, along);
  if (*step > 1 && !may_step) return std::nullopt;
  int64_t rows = 1, all = 1;
  bool has_window = false;
  for (size_t i = 0; i < map.dims.size(); ++i) {
    const bool here = i != x && moves(map.axes[along], i);
    if (i < kept.steps.size()) {
      if (here && !(map.dims[i] == one)) return std::nullopt;
      continue;
    }
    const auto extent = map.dims[i].constant();
    if (!extent) return std::nullopt;
    all *= *extent;
    if (all > tuning::max_line_taps || all == 0) return std::nullopt;
    if (!here || *extent == 1) {
      rows *= *extent;
      continue;
    }
    for (size_t j = 0; j < map.axes.size(); ++j) {
      if (j != along && moves(map.axes[j], i)) return std::nullopt;
    }
    if (has_window) return std::nullopt;
    has_window = true;
  }
  return rows <= tuning::max_line_rows ? length : std::nullopt;
}

}  // namespace ingot::backend::cpu
