#include "backend/cuda/kernels/gemm/grouped_convolution/grouped_convolution_text.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/expression.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/gemm/grouped_convolution/run/grouped_convolution_args.h"
#include "backend/cuda/kernels/gemm/grouped_convolution/run/tuning.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/cuda/kernels/run/tuning.h"
#include "backend/cuda/run/hardware.h"

namespace ingot::backend::cuda {

using Args = kernels::GroupedConvolutionArgs;
using Number = kernels::CudaNumber;
using ir::Dim;
namespace tuning = kernels::gemm::tuning;

namespace {

constexpr size_t none = SIZE_MAX;
// Threads that keep a large GPU busy.
constexpr int64_t busy = hardware::h200_multiprocessors * kernels::gemm::grouped_tuning::threads_of_multiprocessor;

// The GEMM's indices as those of a sum: the batch's, the rows', the column, and those of K.
struct GroupedSum {
  ir::AffineMap map;
  size_t batch = 0, kept = 2;
  size_t group = none;               // the batch index along which B differs
  WindowLine along = {};          // the last index of rows, and an index of K
  size_t channel = none;             // the index of K along which A is contiguous
  int64_t together = 1;              // channels per access

  size_t line() const { return kept - 2; }
  size_t column() const { return kept - 1; }
  int64_t extent(size_t index) const { return map.dims[index].value(); }
  // The distance in K of neighbours along an index.
  int64_t step_in_k(size_t index) const {
    int64_t n = 1;
    for (size_t i = index + 1; i < map.dims.size(); ++i) n *= extent(i);
    return n;
  }
};

bool are_known(const ir::Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_constant(); });
}

// Finds the channels that are neighbours in A, and how many can be read at once.
void find_channels(GroupedSum& s, const StridedLayout& a, ir::DType type) {
  for (size_t j = 0; j < s.map.axes.size(); ++j) {
    if (!is(a.strides[j], 1) || j == s.along.axis || !stays_inside(s.map, a, j)) continue;
    for (size_t i = s.kept; i < s.map.dims.size(); ++i) {
      size_t axes = 0;
      for (const auto& axis : s.map.axes) axes += coefficient(axis, i) != 0;
      if (axes != 1 || coefficient(s.map.axes[j], i) != 1 || s.extent(i) == 1) continue;
      int64_t together = std::gcd(std::gcd(s.extent(i), s.map.axes[j].offset.value()), 16 / static_cast<int64_t>(ir::size_of(type)));
      for (const ir::AffineMap::Term& t : s.map.axes[j].terms) together = t.axis == i ? together : std::gcd(together, t.coefficient);
      s.channel = i;
      s.together = together;
      return;
    }
  }
}

// nullopt if the kernel cannot follow the map, or not all sizes are known.
std::optional<GroupedSum> sum_of(const Gemm& g) {
  const size_t rows = g.batch_rank + g.m_rank;
  GroupedSum s{.map = {}, .batch = g.batch_rank, .kept = rows + 1};
  const ir::AffineMap& given = *g.map;
  const StridedLayout& b = g.b[0];
  const bool all_known = are_known(given.dims) && are_known(g.a.dims) && are_known(g.a.strides) && are_known(b.dims) && are_known(b.strides);
  if (!all_known || g.m_rank == 0 || given.dims.size() <= rows) return std::nullopt;
  s.map.dims.assign(given.dims.begin(), given.dims.begin() + static_cast<int64_t>(rows));
  s.map.dims.push_back(b.dims.back());
  s.map.dims.insert(s.map.dims.end(), given.dims.begin() + static_cast<int64_t>(rows), given.dims.end());
  for (ir::AffineMap::Axis axis : given.axes) {
    if (!axis.offset.is_constant()) return std::nullopt;
    for (ir::AffineMap::Term& t : axis.terms) t.axis += t.axis >= rows ? 1 : 0;
    s.map.axes.push_back(std::move(axis));
  }
  if (s.map.axes.size() > Args::max_rank || s.kept > Args::max_rank || s.map.dims.size() - s.kept > Args::max_rank) return std::nullopt;
  if (std::any_of(s.map.dims.begin(), s.map.dims.end(), [](const Dim& d) { return d.value() < 1; })) return std::nullopt;
  for (size_t d = 0; d < g.batch_rank; ++d) {
    if (is(b.strides[d], 0) || is(b.dims[d], 1)) continue;
    if (s.group != none) return std::nullopt;
    s.group = d;
  }
  if (s.extent(s.line()) > 1) {
    const auto along = find_line(s.map, s.kept);
    if (!along) return std::nullopt;
    s.along = *along;
  }
  find_channels(s, g.a, g.type);
  return s;
}

// How a thread sums: which outputs and columns it has, and what it accesses at once.
struct GroupedForm {
  const Gemm& gemm;
  const FusedBody& body;
  const std::vector<StridedLayout> layouts;
  const GroupedSum sum;
  Args args = {};
  bool vectors = true;  // of the variant that is printed

  // True if a warp can multiply sixteen outputs of a line by all columns of its group: whole vectors of 16 bytes of adjacent channels, and results for eight lanes.
  bool is_for_matrices() const {
    return sum.group != none && sum.channel != none && sum.step_in_k(sum.channel) == 1 && sum.together * static_cast<int64_t>(ir::size_of(gemm.type)) == 16 &&
           sum.along.axis != none && sum.extent(sum.line()) >= kernels::gemm::grouped_tuning::min_outputs_of_line && sum.extent(sum.column()) % 8 == 0;
  }
  bool by_matrices() const { return args.matrices && vectors; }

  // Columns and outputs per thread.
  void choose() {
    const int64_t columns = sum.extent(sum.column());
    if (args.matrices) {
      // What a lane holds of a product of 16 x 8: two outputs, and two columns of each.
      args.vector = static_cast<uint8_t>(columns / 4);
      args.tile = 2;
      return;
    }
    int64_t all = 1;
    for (size_t i = 0; i < sum.kept; ++i) all *= sum.extent(i);
    int64_t columns_at_once = all / 8 >= busy ? 8 : 4;
    while (columns % columns_at_once != 0) --columns_at_once;
    args.vector = static_cast<uint8_t>(columns_at_once);
    const int64_t width = sum.along.axis == none ? 1 : sum.extent(sum.line());
    const auto wanted = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(all / (columns_at_once * busy), 1, 4))));
    const bool transposed = std::any_of(body.stores.begin(), body.stores.end(), [&](const Store& s) { return is_along_rows(s.operand); });
    args.tile = static_cast<uint8_t>(std::min(transposed && adjacent_groups() > 1 ? std::gcd(width, std::max<int64_t>(wanted, 2)) : wanted, width));
    // Few columns of many channels are too few threads: adjacent ones share each sum, and read adjacent channels.
    if (sum.group != none || sum.channel == none) return;
    args.lanes = static_cast<uint8_t>(lanes_of_sum(sum.extent(sum.channel) / sum.together, all / (columns_at_once * args.tile)));
  }

  int64_t groups() const { return sum.group == none ? 1 : sum.extent(sum.group); }
  // Groups of adjacent threads: as many as fill 32 bytes of A, the least that memory moves.
  int64_t adjacent_groups() const {
    const int64_t each = sum.channel == none ? 1 : sum.extent(sum.channel);
    return std::gcd(groups(), std::max<int64_t>(1, 32 / (each * static_cast<int64_t>(ir::size_of(gemm.type)))));
  }
  int64_t outputs() const { return by_matrices() ? Args::rows_of_matrix : args.tile; }  // of a thread, or of a warp
  int64_t tiles() const { return (sum.extent(sum.line()) + outputs() - 1) / outputs(); }
  bool full_tiles() const { return sum.extent(sum.line()) % outputs() == 0; }
  int64_t taps() const { return sum.along.tap == none ? 1 : sum.extent(sum.along.tap); }
  bool guarded(size_t j) const { return std::find(args.unguarded.begin(), args.unguarded.end(), j) == args.unguarded.end(); }
  bool in_vectors(int64_t n) const { return n > 1 && std::has_single_bit(static_cast<uint64_t>(n)); }
  // B is read in vectors along its columns, or along channels.
  bool of_b_along_n() const { return is(gemm.b[0].strides[sum.batch + 1], 1) && in_vectors(args.vector); }
  bool of_b_along_k() const { return !of_b_along_n() && is(gemm.b[0].strides[sum.batch], 1) && sum.channel != none && sum.step_in_k(sum.channel) == 1 && in_vectors(sum.together); }
  // Elements of B that are read at once.
  int64_t of_b_together() const {
    if (args.matrices) return is(gemm.b[0].strides[sum.batch], 1) ? 4 / static_cast<int64_t>(ir::size_of(gemm.type)) : 1;
    return of_b_along_n() ? args.vector : of_b_along_k() ? sum.together : 1;
  }
  bool is_stored(size_t operand) const {
    return std::any_of(body.stores.begin(), body.stores.end(), [&](const Store& s) { return s.operand == operand; });
  }
  bool is_along_columns(size_t operand) const {
    return is(layouts[kernels::body_operand(operand)].strides[sum.batch + 1], 1) && !is(layouts[kernels::body_operand(operand)].dims[sum.batch + 1], 1);
  }
  bool is_along_rows(size_t operand) const {
    return !is_along_columns(operand) && is(layouts[kernels::body_operand(operand)].strides[sum.batch], 1) && !is(layouts[kernels::body_operand(operand)].dims[sum.batch], 1);
  }
  // Elements that are stored at once: columns, or outputs of a line.
  int64_t stored_together(size_t operand) const {
    if (!is_stored(operand)) return 1;
    if (is_along_columns(operand) && in_vectors(args.vector)) return args.vector;
    return is_along_rows(operand) && in_vectors(args.tile) && full_tiles() ? args.tile : 1;
  }
};

class GroupedPrinter {
 public:
  // `matrices`: matrix instructions of A's type may be used.
  GroupedPrinter(const Gemm& g, const FusedBody& body, std::vector<StridedLayout> layouts, bool matrices)
      : f_{g, body, std::move(layouts), *sum_of(g)}, text_(f_.layouts, f_.sum.map.dims.size() + f_.sum.map.axes.size(), true) {
    f_.args.matrices = matrices && f_.is_for_matrices();
  }

  EmittedStep run(const std::vector<int>& variants) {
    std::vector<Dim> sizes;
    take_map(f_.sum.map, f_.sum.kept, f_.gemm.a, f_.body, f_.args, sizes);
    f_.args.batch = static_cast<uint8_t>(f_.sum.batch);
    f_.choose();
    f_.args.operands = {{f_.gemm.type, static_cast<uint8_t>(f_.sum.together)}, {f_.gemm.type, static_cast<uint8_t>(f_.of_b_together())}};
    for (size_t k = 0; k < f_.body.operands.size(); ++k) f_.args.operands.push_back({f_.body.operands[k], static_cast<uint8_t>(f_.stored_together(k))});
    PrintedKernels printed;
    const std::vector<CodeUnit::Library> libraries =
        f_.args.matrices ? std::vector<CodeUnit::Library>{matrix_instructions, matrix_text, windows_text} : std::vector<CodeUnit::Library>{windows_text};
    for (int variant : variants) {
      f_.vectors = variant == 0;
      std::string body = fmt::format("  constexpr int T = {}, V = {}, C = {};\n", f_.args.tile, f_.args.vector, f_.sum.together);
      body += place_text() + (f_.by_matrices() ? products_text() : sums_text()) + body_text();
      printed.kernels.push_back({std::to_string(variant), fmt::format("__launch_bounds__({}, 4)", Args::threads), std::move(body), libraries});
    }
    finish_windows(printed, text_, f_.layouts.size(), f_.args, sizes);
    return window_step("gemm_grouped_convolution", "grouped_convolution", printed, f_.args, sizes);
  }

 private:
  // Prints which outputs and columns the thread has. Adjacent threads have the columns of a group, then a few groups, then the next outputs.
  std::string place_text() {
    std::string out = "  [[maybe_unused]] u64* const status = (u64*)p.status;\n";
    out += f_.by_matrices()
               ? fmt::format("  const int lane = threadIdx.x % 32;\n  u32 rest = blockIdx.x * {}u + threadIdx.x / 32;\n  const int n0 = lane % 4 * V;\n", Args::threads / 32)
               : fmt::format("  u32 rest = blockIdx.x * {}u + threadIdx.x;\n", Args::threads);
    for (size_t i = 0; i < f_.sum.map.dims.size(); ++i) text_.number({Number::size, static_cast<uint8_t>(i), 0}, f_.sum.map.dims[i]);
    auto next = [&](const std::string& declared, int64_t count, const std::string& times) {
      out += fmt::format("  {} = (int)(rest % {}u){};\n  rest /= {}u;\n", declared, count, times, count);
    };
    if (f_.args.lanes > 1) next("const int part", f_.args.lanes, "");
    if (!f_.by_matrices()) next("const int n0", f_.sum.extent(f_.sum.column()) / f_.args.vector, " * V");
    next("const int own", f_.adjacent_groups(), "");
    next("const int first", f_.tiles(), f_.by_matrices() ? fmt::format(" * {} + lane / 4 * T", Args::rows_of_matrix) : " * T");
    if (f_.sum.group != none) next(fmt::format("const int c{}", f_.sum.group), f_.groups() / f_.adjacent_groups(), fmt::format(" * {} + own", f_.adjacent_groups()));
    for (size_t i = f_.sum.line(); i-- > 0;) {
      if (i != f_.sum.group) next(fmt::format("const int c{}", i), f_.sum.extent(i), "");
    }
    std::string row = "0ll";
    for (size_t i = f_.sum.batch; i < f_.sum.column(); ++i) row = fmt::format("({} * {} + {})", row, f_.sum.extent(i), i == f_.sum.line() ? "first" : fmt::format("c{}", i));
    out += fmt::format("  const i64 row = {};\n", row);
    for (size_t j = 0; j < f_.sum.map.axes.size(); ++j) {
      // Phases of a transposed convolution in groups differ in offsets alone: as parameters, so that they share a text. A few columns alone lose by it: 7 taps of 32 channels to 1
      // of 8000 took 12.4 us on an H100, 3.5 with a literal.
      const Number offset{Number::size, static_cast<uint8_t>(f_.sum.map.dims.size() + j), 0};
      out += fmt::format("  const int a{} = (int){}", j, f_.guarded(j) && f_.sum.group != none ? text_.parameter(offset) : text_.number(offset, f_.sum.map.axes[j].offset));
      for (const ir::AffineMap::Term& t : f_.sum.map.axes[j].terms) {
        if (t.axis < f_.sum.kept) out += fmt::format(" + {} * {}", t.axis == f_.sum.line() ? "first" : fmt::format("c{}", t.axis), t.coefficient);
      }
      out += ";\n";
    }
    out += "  wait_for_others();\n  let_next_start();\n";
    return f_.args.lanes > 1 ? out : out + "  if (rest != 0) return;\n";
  }

  // The loops over K but taps, outermost first; of the innermost ones so many turns are printed that their loads overlap.
  std::string loops_text() const {
    std::vector<size_t> order;
    for (size_t i = f_.sum.kept; i < f_.sum.map.dims.size(); ++i) {
      if (i != f_.sum.along.tap && i != f_.sum.channel) order.push_back(i);
    }
    if (f_.sum.channel != none) order.push_back(f_.sum.channel);
    int64_t left = std::max<int64_t>(1, kernels::launch_tuning::max_printed_products / (f_.taps() * f_.sum.together * f_.args.vector * f_.args.tile));
    std::string out;
    for (size_t k = order.size(); k-- > 0;) {
      const bool shared = order[k] == f_.sum.channel && f_.args.lanes > 1;
      const int64_t by = order[k] == f_.sum.channel ? f_.sum.together * f_.args.lanes : 1, turns = f_.sum.extent(order[k]) / by, printed = std::min(turns, left);
      const std::string begin = shared ? fmt::format("part * {}", f_.sum.together) : "0";
      out = fmt::format("#pragma unroll {}\n  for (int c{} = {}; c{} < {}; c{} += {})\n", printed, order[k], begin, order[k], f_.sum.extent(order[k]), order[k], by) + out;
      left = printed == turns ? left / turns : 1;
    }
    return out;
  }

  std::string sums_text() {
    const std::vector<int64_t> at = places_of(f_.sum.along, f_.args.tile, f_.taps());
    std::string of, positions;
    for (int64_t place : at) positions += fmt::format("{}{}", positions.empty() ? "" : ", ", place);
    for (int64_t t = 0; t < f_.args.tile; ++t) {
      for (int64_t k = 0; k < f_.taps(); ++k)
        of += fmt::format("{}{}", of.empty() ? "" : ", ", std::lower_bound(at.begin(), at.end(), t * f_.sum.along.step + k * f_.sum.along.tap_step) - at.begin());
    }
    const std::string_view type = memory_type(f_.gemm.type);
    const std::string of_k = text_.stride(1, f_.sum.batch), of_n = text_.stride(1, f_.sum.batch + 1);
    std::string out = fmt::format("  f32 sums[T][V] = {{}};\n  constexpr int taps = {}, places = {}, at[] = {{{}}}, of[] = {{{}}};\n", f_.taps(), at.size(), positions, of);
    out += fmt::format("  const {}* const weights = (const {}*)p.pointer[1] + n0 * {}", type, type, of_n);
    if (f_.sum.group != none) out += fmt::format(" + c{} * {}", f_.sum.group, text_.stride(1, f_.sum.group));
    out += ";\n" + loops_text() + "  {\n";
    std::string a = fmt::format("(const {}*)p.pointer[0]", type), inside;
    for (size_t j = 0; j < f_.sum.map.axes.size(); ++j) {
      out += fmt::format("    const int y{} = a{}", j, j);
      for (const ir::AffineMap::Term& t : f_.sum.map.axes[j].terms) {
        if (t.axis >= f_.sum.kept && t.axis != f_.sum.along.tap) out += fmt::format(" + c{} * {}", t.axis, t.coefficient);
      }
      out += ";\n";
      if (f_.guarded(j) && j != f_.sum.along.axis) inside += fmt::format("{}(u32)y{} < (u32){}", inside.empty() ? "" : " && ", j, text_.dim(0, j));
      if (std::string s = text_.stride(0, j); s != "0ll") a += fmt::format(" + y{} * {}", j, s);
    }
    std::string k_of = "0ll";
    for (size_t i = f_.sum.kept; i < f_.sum.map.dims.size(); ++i) {
      if (i != f_.sum.along.tap) k_of += fmt::format(" + c{} * {}", i, f_.sum.step_in_k(i));
    }
    const bool asks = f_.sum.along.axis != none && (f_.guarded(f_.sum.along.axis) || !f_.full_tiles());
    const std::string step = f_.sum.along.axis == none ? "0ll" : text_.stride(0, f_.sum.along.axis);
    out += fmt::format("    const bool in_image = {};\n    const {}* const line = {};\n    alignas(16) {} held[places][C];\n", inside.empty() ? "true" : inside, type, a, type);
    out += "#pragma unroll\n    for (int m = 0; m < places; ++m) {\n      const bool there = in_image" +
           (asks ? fmt::format(" && (u32)(y{} + at[m]) < (u32){}", f_.sum.along.axis, text_.dim(0, f_.sum.along.axis)) : "") + ";\n";
    if (f_.vectors || f_.sum.together == 1) {
      out += fmt::format("      read_constant_if<C>(held[m], line + at[m] * {}, there);\n    }}\n", step);
    } else {
      out += fmt::format("#pragma unroll\n      for (int e = 0; e < C; ++e) read_constant_if<1>(held[m] + e, line + at[m] * {} + e, there);\n    }}\n", step);
    }
    const int64_t channel_step = f_.sum.channel == none ? 0 : f_.sum.step_in_k(f_.sum.channel);
    out += fmt::format("#pragma unroll\n    for (int k = 0; k < taps; ++k) {{\n      const {}* const own_taps = weights + ({} + k * {}) * {};\n", type, k_of,
                       f_.sum.along.tap == none ? 0 : f_.sum.step_in_k(f_.sum.along.tap), of_k);
    const bool along_k = f_.vectors && f_.of_b_along_k();
    out += fmt::format("      alignas(16) {} w[{}];\n", type, along_k ? "V][C" : "C][V");
    if (along_k) {
      out += fmt::format("#pragma unroll\n      for (int v = 0; v < V; ++v) read_constant<C>(w[v], own_taps + v * {});\n", of_n);
    } else if (f_.vectors && f_.of_b_along_n()) {
      out += fmt::format("#pragma unroll\n      for (int e = 0; e < C; ++e) read_constant<V>(w[e], own_taps + e * {} * {});\n", channel_step, of_k);
    } else {
      out += fmt::format("#pragma unroll\n      for (int e = 0; e < C * V; ++e) read_constant<1>(w[e / V] + e % V, own_taps + e / V * {} * {} + e % V * {});\n", channel_step, of_k,
                         of_n);
    }
    out += fmt::format("#pragma unroll\n      for (int e = 0; e < C; ++e) {{\n        f32 b[V];\n#pragma unroll\n        for (int v = 0; v < V; ++v) b[v] = value({});\n",
                       along_k ? "w[v][e]" : "w[e][v]");
    out += "#pragma unroll\n        for (int t = 0; t < T; ++t) {\n          const f32 x = value(held[of[t * taps + k]][e]);\n#pragma unroll\n";
    out += "          for (int v = 0; v < V; ++v) sums[t][v] += x * b[v];\n        }\n      }\n    }\n  }\n";
    if (f_.args.lanes == 1) return out;
    // Threads after the last output have indices of others until here: all lanes of a warp exchange their sums.
    return out + fmt::format("#pragma unroll\n  for (int lanes = {}; lanes > 0; lanes /= 2) {{\n#pragma unroll\n    for (int e = 0; e < T * V; ++e) ", f_.args.lanes / 2) +
           "sums[e / V][e % V] += __shfl_xor_sync(0xffffffffu, sums[e / V][e % V], lanes);\n  }\n  if (rest != 0 || part != 0) return;\n";
  }

  // The indices of K of a vector of 16 bytes of channels.
  std::vector<int64_t> indices_of_vector(int64_t vector) const {
    std::vector<int64_t> at(f_.sum.map.dims.size(), 0);
    int64_t k = vector * f_.sum.together;
    for (size_t i = at.size(); i-- > f_.sum.kept; k /= f_.sum.extent(i)) at[i] = k % f_.sum.extent(i);
    return at;
  }

  // Sums by matrix instructions. The sixteen rows of A's fragment are outputs of a line, so that a lane has two adjacent ones; columns are permuted among the fragments of
  // B, so that a lane has V adjacent ones. Four lanes load a vector of A or B.
  std::string products_text() {
    int64_t k = 1;
    for (size_t i = f_.sum.kept; i < f_.sum.map.dims.size(); ++i) k *= f_.sum.extent(i);
    const int64_t vectors = k / f_.sum.together;
    std::vector<std::string> taps(f_.sum.map.axes.size());
    std::string offsets;
    for (int64_t vector = 0; vector < vectors; ++vector) {
      const std::vector<int64_t> at = indices_of_vector(vector);
      int64_t offset = 0;
      for (size_t j = 0; j < taps.size(); ++j) {
        int64_t tap = 0;
        for (size_t i = f_.sum.kept; i < at.size(); ++i) tap += coefficient(f_.sum.map.axes[j], i) * at[i];
        taps[j] += fmt::format("{}{}", vector == 0 ? "" : ", ", tap);
        if (!is(f_.gemm.a.dims[j], 1)) offset += tap * f_.gemm.a.strides[j].value();
      }
      offsets += fmt::format("{}{}", vector == 0 ? "" : ", ", offset);
    }
    const std::string_view type = memory_type(f_.gemm.type);
    const std::string of_k = text_.stride(1, f_.sum.batch), of_n = text_.stride(1, f_.sum.batch + 1), along = text_.stride(0, f_.sum.along.axis);
    std::string out = fmt::format("  constexpr int vectors = {}, each = {}, of_word = each / 4;\n  constexpr i64 offsets[] = {{{}}};\n", vectors, f_.sum.together, offsets);
    std::string a, inside = "vector < vectors";
    for (size_t j = 0; j < taps.size(); ++j) {
      if (std::string s = text_.stride(0, j); s != "0ll") a += fmt::format(" + a{} * {}", j, s);
      if (f_.guarded(j) || j == f_.sum.along.axis) out += fmt::format("  constexpr int taps{}[] = {{{}}};\n", j, taps[j]);
      if (f_.guarded(j) && j != f_.sum.along.axis) inside += fmt::format(" && (u32)(a{} + taps{}[at]) < (u32){}", j, j, text_.dim(0, j));
    }
    out += fmt::format("  const {}* const image = (const {}*)p.pointer[0]{} + lane % 4 * of_word;\n", type, type, a);
    out += fmt::format("  const {}* const weights = (const {}*)p.pointer[1] + c{} * {} + lane % 4 * of_word * {} + (lane / 8 * V + lane / 4 % 2) * {};\n", type, type, f_.sum.group,
                       text_.stride(1, f_.sum.group), of_k, of_n);
    out +=
        "  f32 parts[V / 2][4] = {};\n#pragma unroll\n  for (int step = 0; step < (vectors + 1) / 2; ++step) {\n    u32 a[4], b[4] = {};\n#pragma unroll\n" +
        fmt::format("    for (int half = 0; half < 2; ++half) {{\n      const int vector = step * 2 + half, at = vector < vectors ? vector : 0;\n      const bool in_image = {};\n",
                    inside);
    const bool asks = f_.guarded(f_.sum.along.axis) || !f_.full_tiles();
    const std::string there =
        asks ? fmt::format("in_image && (u32)(a{} + t * {} + taps{}[at]) < (u32){}", f_.sum.along.axis, f_.sum.along.step, f_.sum.along.axis, text_.dim(0, f_.sum.along.axis))
             : "in_image";
    out += fmt::format("#pragma unroll\n      for (int t = 0; t < T; ++t) read_constant_if<of_word>(({}*)(a + half * 2 + t), image + offsets[at] + t * {} * {}, {});\n", type,
                       f_.sum.along.step, along, there);
    const std::string to = fmt::format("({}*)(b + j * 2 + half)", type), from = fmt::format("weights + j * 2 * {} + at * each * {}", of_n, of_k);
    out += "#pragma unroll\n      for (int j = 0; j < V / 2; ++j) {\n";
    out += is(f_.gemm.b[0].strides[f_.sum.batch], 1)
               ? fmt::format("        read_constant_if<of_word>({}, {}, vector < vectors);\n", to, from)
               : fmt::format("#pragma unroll\n        for (int e = 0; e < of_word; ++e) read_constant_if<1>({} + e, {} + e * {}, vector < vectors);\n", to, from, of_k);
    out += fmt::format(
        "      }}\n    }}\n    round_fragment(a, {}());\n    round_fragment(b, {}());\n#pragma unroll\n    for (int j = 0; j < V / 2; ++j) multiply(parts[j], a, b + j * 2, "
        "{}());\n  }}\n",
        type, type, type);
    return out + "  f32 sums[T][V];\n#pragma unroll\n  for (int e = 0; e < T * V; ++e) sums[e / V][e % V] = parts[e % V / 2][e / V * 2 + e % 2];\n";
  }

  // The address of an operand of the body, without columns.
  std::string at(size_t operand, const std::string& row) {
    std::string out = fmt::format("({}*)p.pointer[{}]", memory_type(f_.body.operands[operand]), kernels::body_operand(operand));
    for (size_t d = 0; d <= f_.sum.batch; ++d) {
      if (std::string s = text_.stride(kernels::body_operand(operand), d); s != "0ll") out += fmt::format(" + {} * {}", d == f_.sum.batch ? row : fmt::format("c{}", d), s);
    }
    return out;
  }

  // All loads come before the first store: the result may share an operand's memory, element by element.
  std::string body_text() {
    std::string results, declared, keep, put;
    const std::string ends = f_.full_tiles() ? "" : fmt::format("    if (first + t >= {}) break;\n", f_.sum.extent(f_.sum.line()));
    for (size_t s = 0; s < f_.body.stores.size(); ++s) {
      const Store& store = f_.body.stores[s];
      const std::string_view type = memory_type(f_.body.operands[store.operand]);
      const std::string columns = text_.stride(kernels::body_operand(store.operand), f_.sum.batch + 1);
      results += fmt::format("  alignas(16) {} o{}[T][V];\n", type, s);
      declared += fmt::format("    {} x{}[V];\n", value_type(f_.body.code[store.value].dtype), s);
      keep += fmt::format("    keep<V>(o{}[t], x{});\n", s, s);
      const bool together = f_.vectors && f_.stored_together(store.operand) > 1;
      if (together && f_.is_along_rows(store.operand)) {
        put += fmt::format("#pragma unroll\n  for (int v = 0; v < V; ++v) {{\n    alignas(16) {} line[T];\n#pragma unroll\n    for (int t = 0; t < T; ++t) line[t] = o{}[t][v];\n",
                           type, s);
        put += fmt::format("    write<T>({} + (n0 + v) * {}, line);\n  }}\n", at(store.operand, "row"), columns);
        continue;
      }
      put += "#pragma unroll\n  for (int t = 0; t < T; ++t) {\n" + ends;
      put += together ? fmt::format("    write<V>({} + n0, o{}[t]);\n  }}\n", at(store.operand, "(row + t)"), s)
                      : fmt::format("#pragma unroll\n    for (int v = 0; v < V; ++v) ({})[(n0 + v) * {}] = o{}[t][v];\n  }}\n", at(store.operand, "(row + t)"), columns, s);
      if (f_.is_along_columns(store.operand)) text_.take({Number::stride, static_cast<uint8_t>(kernels::body_operand(store.operand)), static_cast<uint8_t>(f_.sum.batch + 1)}, 1);
    }
    std::vector<std::string> coordinates;
    for (size_t d = 0; d < f_.sum.batch; ++d) coordinates.push_back(fmt::format("c{}", d));
    coordinates.insert(coordinates.end(), {"(row + t)", "(n0 + v)"});
    std::string code = text_.code(f_.body, 2, coordinates, {"sums[t][v]"}, {}, stores_halves(f_.body));
    for (size_t s = 0; s < f_.body.stores.size(); ++s) code += fmt::format("  x{}[v] = r{};\n", s, f_.body.stores[s].value);
    return results + "#pragma unroll\n  for (int t = 0; t < T; ++t) {\n" + ends + declared + "#pragma unroll\n    for (int v = 0; v < V; ++v) {\n" + code + "    }\n" + keep +
           "  }\n" + put;
  }

  GroupedForm f_;
  ElementText text_;
};

}  // namespace

int lanes_of_sum(int64_t vectors, int64_t threads) {
  int lanes = 1;
  while (lanes < kernels::gemm::grouped_tuning::max_threads_of_sum && vectors % (lanes * 2) == 0 && threads * lanes < 4 * busy) lanes *= 2;
  return lanes;
}

std::optional<WindowObstacle> grouped_convolution_obstacle(const Gemm& g, const FusedBody& body, const std::vector<StridedLayout>& layouts) {
  auto types = [](const char* why) { return WindowObstacle{Obstacle::types, why}; };
  if (!is_half(g.type) && g.type != ir::DType::f32) return types("for float32 and half types");
  if (!g.map) return WindowObstacle{Obstacle::a, "A is not read through a map"};
  if (g.packed || g.encoding || g.prologue || g.gated || g.b.size() != 1) return WindowObstacle{Obstacle::b, "B is one matrix for each group, in A's type"};
  const auto s = sum_of(g);
  std::vector<Dim> ignored;
  if (!s || !map_steps(s->map, ignored)) return types("sizes are open, or the map cannot be followed");
  if (s->extent(s->column()) > (s->group == none ? tuning::max_columns_alone : tuning::max_columns_of_group))
    return WindowObstacle{Obstacle::cost, "columns enough for matrix instructions"};
  const bool gathers = std::any_of(layouts.begin(), layouts.end(), [&](const StridedLayout& x) { return x.dims.size() != g.batch_rank + 2; });
  if (gathers || !is_of_elements(body) || body.row.size() != 1) return WindowObstacle{Obstacle::body, "the body does not compute single elements, or gathers"};
  return std::nullopt;
}

EmittedStep emit_grouped_convolution(const Gemm& g, const FusedBody& body, const std::vector<StridedLayout>& body_layouts, bool matrices, const std::vector<int>& variants) {
  std::vector<StridedLayout> layouts{g.a, g.b[0]};
  layouts.insert(layouts.end(), body_layouts.begin(), body_layouts.end());
  return GroupedPrinter(g, body, std::move(layouts), matrices).run(variants);
}

}  // namespace ingot::backend::cuda
