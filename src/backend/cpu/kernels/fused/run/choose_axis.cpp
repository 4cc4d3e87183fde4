// Chooses the axis along which blocks run: memory should be accessed in order, and blocks should be long.
#include <algorithm>
#include <cstdlib>

#include "backend/cpu/kernels/fused/run/cut.h"
#include "backend/cpu/kernels/fused/run/row_body.h"
#include "backend/cpu/kernels/fused/run/stage.h"
#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

namespace {

// Nanoseconds of an element.
double of_stride(int64_t stride) {
  using namespace fused_tuning;
  return stride == 0 ? 0 : std::abs(stride) == 1 ? ns_of_neighbour : std::abs(stride) <= near_elements ? ns_of_near : ns_of_far;
}

// Per value: does it change along the axis?
std::vector<uint8_t> varying(const Bound& b, const Program& p, int axis) {
  std::vector<uint8_t> out(p.code.size(), 0);
  for (size_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    for (uint32_t in : i.in) out[k] |= out[in];
    if (i.kind == Kind::index && i.axis == axis) out[k] = 1;
    if (i.kind == Kind::load && (b.strides[i.operand][static_cast<size_t>(axis)] != 0 || limits(b, k, i, axis))) out[k] = 1;
  }
  return out;
}

double cost_along(const Bound& b, const Program& p, int axis) {
  const auto a = static_cast<size_t>(axis);
  const std::vector<uint8_t> varies = varying(b, p, axis);
  const std::vector<Axes> axes = axes_of(b, p);
  const int64_t total = elements_of(b, all_axes);
  const bool lines = axis == p.domain_rank - 1 && may_join_lines(b, p);
  const auto length = static_cast<double>(std::clamp<int64_t>(b.domain[a] * (lines ? b.domain[a - 1] : 1), 1, fused_tuning::block_elements));
  auto of_operand = [&](size_t operand) { return lines && b.strides[operand][a - 1] != b.domain[a] ? fused_tuning::of_line : of_stride(b.strides[operand][a]); };
  double cost = 0;
  const bool copies = p.code.size() == 1 && !p.stores.empty() && p.memory[p.code[0].operand] == p.memory[p.stores[0].operand];
  const double start = copies || (axis == p.domain_rank - 1 && may_be_row_body(b, p)) ? fused_tuning::per_row : fused_tuning::per_block;
  for (size_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (i.kind == Kind::literal || i.kind == Kind::size || i.kind == Kind::index) continue;
    if (varies[k] == 0) {
      cost += 2 / length;  // mostly held by a part
      continue;
    }
    const bool held = axes[k] != all_axes && elements_of(b, axes[k]) * 4 <= total;  // computed once by a part and held
    if (held && (i.kind != Kind::load || i.in.empty())) {
      cost += 4 / length;
      continue;
    }
    cost += start / length;
    if (i.kind != Kind::load) continue;
    const bool gathers = std::any_of(i.in.begin(), i.in.end(), [&](uint32_t in) { return varies[in] != 0; });
    const bool is_transposed = p.has_reductions && b.strides[i.operand][a] > 1 && may_transpose_looked_up(b, p, i);
    cost += gathers ? 0.5 : is_transposed || may_stage(b, p, i, axis) ? fused_tuning::staged : of_operand(i.operand);
  }
  for (const ProgramStore& s : p.stores) cost += start / length + of_operand(s.operand);
  return cost;
}

template <class T>
void put_in_order(std::vector<T>& v, const std::vector<size_t>& order) {
  if (v.empty()) return;
  std::vector<T> out;
  for (size_t a : order) out.push_back(v[a]);
  std::copy(out.begin(), out.end(), v.begin());  // gathered axes stay last
}

std::vector<size_t> with_last(const Program& p, size_t axis) {
  std::vector<size_t> order;
  for (size_t a = 0; a < static_cast<size_t>(p.domain_rank); ++a) {
    if (a != axis) order.push_back(a);
  }
  order.push_back(axis);
  return order;
}

void choose_plain(Bound& b, Program& p) {
  int best = p.domain_rank - 1;
  double least = cost_along(b, p, best) * fused_tuning::share_of_last_axis;
  for (int a = 0; a + 1 < p.domain_rank; ++a) {
    const double cost = cost_along(b, p, a);
    if (cost >= least) continue;
    least = cost;
    best = a;
  }
  if (best + 1 < p.domain_rank) reorder_axes(b, p, with_last(p, static_cast<size_t>(best)));
}

bool may_run_across(const Program& p) {
  for (const ProgramInstruction& i : p.code) {
    if (i.kind == Kind::accumulator) return false;
    if (i.kind != Kind::reduce) continue;
    const Class c = p.code[i.in[0]].cls;
    const bool logic = i.reduction == Reduction::any || i.reduction == Reduction::all;
    if ((c == Class::b8) != logic) return false;
  }
  return true;
}

// True if reading along a row jumps: no load has contiguous elements there, or one has a stride of a cache line or more, as in a sum of a matrix's rows with weights.
bool has_strided_rows(const Bound& b, const Program& p) {
  int64_t smallest = 0, largest = 0;  // strides along the row, of loads that change along it
  for (const ProgramInstruction& i : p.code) {
    if (i.kind != Kind::load) continue;
    const int64_t stride = std::abs(b.strides[i.operand][static_cast<size_t>(p.domain_rank) - 1]);
    if (stride != 0) smallest = smallest == 0 ? stride : std::min(smallest, stride);
    largest = std::max(largest, stride);
  }
  return smallest > 1 || largest >= fused_tuning::cache_line;
}

// True for short rows of contiguous floats: tiles of them are transposed, and many are reduced at once. Depends on a row alone.
bool may_transpose(const Bound& b, const Program& p, int64_t length, bool only_reduces) {
  // Of reductions that join_rows has, several longer rows are computed together; of others, rows along which something is stored are faster one by one.
  const bool joins = std::all_of(p.code.begin(), p.code.end(), [](const ProgramInstruction& i) {
    return i.kind != Kind::reduce || i.reduction == Reduction::sum || i.reduction == Reduction::prod || i.reduction == Reduction::max || i.reduction == Reduction::min;
  });
  const int64_t longest = joins ? fused_tuning::longest_joined : only_reduces ? fused_tuning::longest_transposed : fused_tuning::longest_stored;
  const auto last = static_cast<size_t>(p.domain_rank) - 1;
  if (p.row_rank != 1 || length < fused_tuning::shortest_row || length > longest) return false;
  auto is_contiguous_row = [&](size_t operand) { return p.memory[operand] == ir::DType::f32 && b.strides[operand][last] == 1; };
  for (const ProgramInstruction& i : p.code) {
    if (i.kind == Kind::place || (i.kind == Kind::reduce && i.cls != Class::f32)) return false;
    if (i.kind == Kind::load && b.strides[i.operand][last] != 0 && (!i.lower.empty() || !i.in.empty() || !is_contiguous_row(i.operand))) return false;
  }
  return std::all_of(p.stores.begin(), p.stores.end(), [&](const ProgramStore& s) { return b.dims[s.operand][last] == 1 || is_contiguous_row(s.operand); });
}

void choose_reduced(Bound& b, Program& p) {
  const int outer = p.domain_rank - p.row_rank;
  int64_t length = 1;
  for (int a = outer; a < p.domain_rank; ++a) length *= b.domain[static_cast<size_t>(a)];
  if (outer == 0 || length == 0 || !may_run_across(p)) return;
  std::vector<uint8_t> once;
  for (const ProgramStore& s : p.stores) {
    bool one = true;
    for (int a = outer; a < p.domain_rank; ++a) one = one && b.dims[s.operand][static_cast<size_t>(a)] == 1;
    once.push_back(one);
  }
  const bool only_reduces = p.stages <= 2 && std::all_of(once.begin(), once.end(), [](uint8_t one) { return one != 0; });
  const int last = p.domain_rank - 1;
  const bool is_short = length < 64 || (p.row_rank > 1 && b.domain[static_cast<size_t>(last)] < 32);
  // Depends on the row alone, so that the order of its sums does not depend on the number of rows.
  const bool transposes = may_transpose(b, p, length, only_reduces);
  if (!(p.in_order || has_strided_rows(b, p) || (only_reduces && is_short) || transposes)) return;
  const auto extent = static_cast<double>(std::clamp<int64_t>(b.domain[static_cast<size_t>(last)], 1, fused_tuning::block_elements));
  double along = 0;
  for (const ProgramInstruction& i : p.code) {
    if (i.kind == Kind::literal || i.kind == Kind::size) continue;
    along += fused_tuning::per_block / static_cast<double>(std::min<int64_t>(length, fused_tuning::block_elements));
    if (i.kind == Kind::load) along += of_stride(b.strides[i.operand][static_cast<size_t>(last)]) + (p.row_rank > 1 ? fused_tuning::per_block / extent : 0);
    if (i.kind == Kind::reduce) along += 1;
  }
  int best = 0;
  double least = cost_along(b, p, 0);
  for (int a = 1; a < outer; ++a) {
    const double cost = cost_along(b, p, a);
    if (cost >= least) continue;
    least = cost;
    best = a;
  }
  if (transposes) best = static_cast<int>(std::max_element(b.domain.begin(), b.domain.begin() + outer) - b.domain.begin());
  b.in_order = true;
  const bool worth = transposes ? b.domain[static_cast<size_t>(best)] >= fused_tuning::min_rows : only_reduces ? least < along : least * p.stages < along;
  if (!worth) return;
  reorder_axes(b, p, with_last(p, static_cast<size_t>(best)));
  b.across = p.row_rank;
  b.places = length;
  b.once = std::move(once);
  p.row_rank = 1;
}

}  // namespace

void reorder_axes(Bound& b, Program& p, const std::vector<size_t>& order) {
  put_in_order(b.domain, order);
  for (auto& strides : b.strides) put_in_order(strides, order);
  for (auto& dims : b.dims) put_in_order(dims, order);
  for (auto& lower : b.lower) put_in_order(lower, order);
  for (auto& step : b.step) put_in_order(step, order);
  for (ProgramInstruction& i : p.code) {
    if (i.kind == Kind::index) i.axis = static_cast<uint8_t>(std::find(order.begin(), order.end(), i.axis) - order.begin());
  }
}

void choose_axis(Bound& b, Program& p) {
  if (std::find(b.domain.begin(), b.domain.end(), 0) != b.domain.end()) return;
  if (p.has_reductions) return choose_reduced(b, p);
  if (p.row_rank == 1) choose_plain(b, p);
}

}  // namespace ingot::kernels
