#include "backend/cuda/kernels/depthwise_conv/depthwise_conv_text.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/expression.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/cuda/kernels/depthwise_conv/run/tuning.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/run/tuning.h"
#include "backend/cuda/run/hardware.h"
#include "base/error.h"

namespace ingot::backend::cuda {

using Args = kernels::DepthwiseConvCudaArgs;
using Number = kernels::CudaNumber;
using Axis = ir::AffineMap::Axis;
using ir::Dim;

namespace {

// The axis of A that the channels (the last kept index) are, if they are one whole axis and B has a value for each.
std::optional<size_t> axis_of_channels(const DepthwiseConv& w) {
  const size_t channel = w.kept - 1;
  std::optional<size_t> found;
  for (size_t j = 0; j < w.map.axes.size(); ++j) {
    const Axis& axis = w.map.axes[j];
    if (coefficient(axis, channel) == 0) continue;
    if (found || axis.terms.size() > 1 || coefficient(axis, channel) != 1 || !(axis.offset == Dim(0)) || !(w.a.dims[j] == w.map.dims[channel])) return std::nullopt;
    found = j;
  }
  return w.b.dims[channel] == w.map.dims[channel] ? found : std::nullopt;
}

std::optional<WindowLine> line_of(const DepthwiseConv& w) {
  const size_t across = w.kept - 2;
  return is(w.b.dims[across], 1) || is(w.b.strides[across], 0) ? find_line(w.map, w.kept) : std::nullopt;
}

// True if neighbours along the line are neighbours in A, in what is stored, and in what the body loads for each of them.
bool goes_along_lines(const DepthwiseConv& w, const WindowLine& line, const std::vector<StridedLayout>& body_layouts) {
  const size_t across = w.kept - 2;
  if (line.axis == WindowLine::none || line.step < 1 || !is(w.a.strides[line.axis], 1) || !w.map.axes[line.axis].offset.is_constant()) return false;
  return std::all_of(body_layouts.begin(), body_layouts.end(),
                     [&](const StridedLayout& x) { return is(x.dims[across], 1) || is(x.strides[across], 1) || is(x.strides[across], 0); });
}

int64_t divided_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
// n / by, rounded down.
int64_t divided_down(int64_t n, int64_t by) { return n >= 0 ? n / by : -divided_up(-n, by); }

// How a thread sums: which outputs and channels it has, and what it accesses at once.
struct DepthwiseForm {
  const DepthwiseConv& conv;
  const FusedBody& body;
  const std::vector<StridedLayout> layouts;
  const WindowLine line;
  Args args = {};
  bool turns = false;   // threads are neighbours along channels, but a result is contiguous along lines
  bool vectors = true;  // of the variant that is printed

  // Threads that keep a large GPU busy.
  static constexpr int64_t busy = hardware::h200_multiprocessors * kernels::depthwise_cuda_tuning::threads_of_multiprocessor;

  void choose() {
    args.lines = !is(conv.a.strides[*axis_of_channels(conv)], 1);
    turns = !args.lines && stores_along_lines();
    args.vector = args.lines ? 1 : kernels::depthwise_cuda_tuning::channels_of_thread;
    args.tile = static_cast<uint8_t>(outputs_together());
    args.operands = {{conv.of_a, args.lines ? in_access(conv.of_a, conv.a.dims[line.axis], args.tile * line.step) : args.vector},
                     {conv.type, !args.lines && is(conv.b.strides[channel()], 1) ? args.vector : uint8_t{1}}};
    for (size_t k = 0; k < body.operands.size(); ++k) args.operands.push_back({body.operands[k], in_access_of_body(k)});
  }

  size_t channel() const { return conv.kept - 1; }
  size_t across() const { return conv.kept - 2; }
  int64_t taps() const { return line.tap == WindowLine::none ? 1 : conv.map.dims[line.tap].value(); }
  bool guarded(size_t j) const { return std::find(args.unguarded.begin(), args.unguarded.end(), j) == args.unguarded.end(); }
  bool of_channels(size_t j) const { return coefficient(conv.map.axes[j], channel()) != 0; }
  bool full_tiles() const { return conv.map.dims[across()].is_constant() && conv.map.dims[across()].value() % args.tile == 0; }

  // True if the body's operand is contiguous along lines, not along channels.
  bool is_along_lines(size_t operand) const {
    const StridedLayout& x = layouts[kernels::body_operand(operand)];
    return is(x.strides[across()], 1) && !is(x.dims[across()], 1) && !is(x.strides[channel()], 1);
  }
  bool stores_along_lines() const {
    return std::any_of(body.stores.begin(), body.stores.end(), [&](const Store& s) { return is_along_lines(s.operand); });
  }
  // Channels of adjacent threads if results are contiguous along lines: as many as fill 32 bytes of A, the least that memory moves. The next threads have the next outputs of the line.
  int64_t adjacent_channels() const {
    const int64_t channels = conv.map.dims[channel()].constant().value_or(1);
    return std::gcd(channels, 32 / static_cast<int64_t>(ir::size_of(conv.of_a)));
  }

  // Adjacent outputs per thread.
  int64_t outputs_together() const {
    if (line.axis == WindowLine::none) return 1;
    Dim all = 1;
    for (size_t i = 0; i < conv.kept; ++i) all *= conv.map.dims[i];
    const int64_t width = std::max<int64_t>(1, conv.map.dims[across()].constant().value_or(kernels::depthwise_cuda_tuning::max_outputs_of_thread));
    int64_t max_outputs = kernels::depthwise_cuda_tuning::max_outputs_of_thread;
    if (all.is_constant())
      max_outputs = std::clamp<int64_t>(all.value() / ((args.lines ? 1 : kernels::depthwise_cuda_tuning::channels_of_thread) * busy), 1,
                                        kernels::depthwise_cuda_tuning::max_outputs_of_thread);
    // Along lines, whole vectors. Else a line is divided into equal parts: 14 outputs are 7 and 7.
    if (args.lines)
      return std::max<int64_t>(std::min<int64_t>(4, std::bit_ceil(static_cast<uint64_t>(width))), std::bit_floor(static_cast<uint64_t>(std::min(max_outputs, width))));
    const int64_t stored = turns ? std::gcd(conv.map.dims[across()].constant().value_or(1), 4) : 1;  // outputs that can be stored together
    if (stored > 1) return std::min<int64_t>(stored, std::max<int64_t>(2, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(max_outputs)))));
    return divided_up(width, divided_up(width, max_outputs));
  }

  // Elements per access along a line of this size, where threads have a stride of `advance` elements.
  static uint8_t in_access(ir::DType type, const Dim& size, int64_t advance) {
    return static_cast<uint8_t>(std::gcd(std::gcd(16 / static_cast<int64_t>(ir::size_of(type)), advance), size.constant().value_or(0)));
  }
  // Elements of the body's operand per access: channels, or outputs of a line.
  uint8_t in_access_of_body(size_t operand) const {
    const StridedLayout& x = layouts[kernels::body_operand(operand)];
    const size_t along = args.lines ? across() : channel();
    if (transposed_store(operand)) return args.tile;
    if (is(x.dims[along], 1) || !is(x.strides[along], 1)) return 1;
    return args.lines ? in_access(body.operands[operand], conv.map.dims[along], args.tile) : args.vector;
  }
  // True if a thread's outputs of a line are stored together, channel after channel: as one vector, which begins at a multiple of its bytes.
  bool transposed_store(size_t operand) const {
    const bool stored = std::any_of(body.stores.begin(), body.stores.end(), [&](const Store& s) { return s.operand == operand; });
    return turns && stored && is_along_lines(operand) && args.tile > 1 && std::has_single_bit(args.tile) && full_tiles();
  }
  int64_t access(size_t operand) const { return vectors ? args.operands[operand].vector : 1; }
};

class Printer {
 public:
  Printer(const DepthwiseConv& conv, const FusedBody& body, std::vector<StridedLayout> layouts)
      : f_{conv, body, std::move(layouts), *line_of(conv)}, text_(f_.layouts, conv.map.dims.size() + conv.map.axes.size(), true) {}

  EmittedStep run(const std::vector<int>& variants) {
    std::vector<Dim> sizes;
    take_map(f_.conv.map, f_.conv.kept, f_.conv.a, f_.body, f_.args, sizes);
    f_.choose();
    PrintedKernels printed;
    for (int variant : variants) {
      f_.vectors = variant == 0;
      std::string body = fmt::format("  constexpr int V = {};\n", f_.vectors ? f_.args.vector : 1);
      body += place_text() + sums_text() + body_text();
      printed.kernels.push_back({std::to_string(variant),
                                 fmt::format("__launch_bounds__({}, {})", Args::threads, kernels::depthwise_cuda_tuning::blocks_of_multiprocessor),
                                 std::move(body),
                                 {windows_text}});
    }
    finish_windows(printed, text_, f_.layouts.size(), f_.args, sizes);
    return window_step("depthwise_conv", "depthwise_conv", printed, f_.args, sizes);
  }

 private:
  std::string extent(size_t index) { return text_.number({Number::size, static_cast<uint8_t>(index), 0}, f_.conv.map.dims[index]); }
  // True if the body's operand is loaded or stored in vectors.
  bool together(size_t operand) {
    const size_t along = f_.args.lines ? f_.across() : f_.channel();
    const StridedLayout& x = f_.layouts[kernels::body_operand(operand)];
    if (is(x.dims[along], 1) || !is(x.strides[along], 1)) return false;
    text_.take({Number::stride, static_cast<uint8_t>(kernels::body_operand(operand)), static_cast<uint8_t>(along)}, 1);
    return true;
  }
  // Prints which outputs and channels the thread has, and where their windows start along A's axes.
  std::string place_text() {
    std::string out = "  [[maybe_unused]] u64* const status = (u64*)p.status;\n";
    out += fmt::format("  u32 rest = blockIdx.x * {}u + threadIdx.x;\n", Args::threads);
    std::string vector = fmt::format("  const u32 vectors = (u32){} / V;\n  const int c{} = (int)(rest % vectors) * V;\n  rest /= vectors;\n", extent(f_.channel()), f_.channel());
    if (f_.turns) {
      out +=
          fmt::format("  constexpr u32 adjacent = {} > V ? {} / V : 1;\n  const u32 own = rest % adjacent;\n  rest /= adjacent;\n", f_.adjacent_channels(), f_.adjacent_channels());
      vector = fmt::format("  const u32 vectors = (u32){} / V / adjacent;\n  const int c{} = (int)(rest % vectors * adjacent + own) * V;\n  rest /= vectors;\n",
                           extent(f_.channel()), f_.channel());
    }
    if (!f_.args.lines && !f_.turns) out += vector;
    out += fmt::format("  const int width = (int){};\n  const u32 tiles = (u32)(width + {}) / {};\n", extent(f_.across()), f_.args.tile - 1, f_.args.tile);
    out += fmt::format("  const int first = (int)(rest % tiles) * {};\n  rest /= tiles;\n", f_.args.tile);
    if (f_.args.lines || f_.turns) out += vector;
    for (size_t i = f_.across(); i-- > 1;) out += fmt::format("  const int c{} = (int)(rest % (u32){});\n  rest /= (u32){};\n", i, extent(i), extent(i));
    if (f_.across() > 0) out += "  const int c0 = (int)rest;\n";
    for (size_t j = 0; j < f_.conv.map.axes.size(); ++j) {
      if (f_.of_channels(j)) continue;
      out += fmt::format("  const int a{} = (int){}", j, text_.number({Number::size, static_cast<uint8_t>(f_.conv.map.dims.size() + j), 0}, f_.conv.map.axes[j].offset));
      for (const ir::AffineMap::Term& t : f_.conv.map.axes[j].terms) {
        if (t.axis < f_.conv.kept) out += fmt::format(" + {} * {}", t.axis == f_.across() ? "first" : fmt::format("c{}", t.axis), t.coefficient);
      }
      out += ";\n";
    }
    return out + fmt::format("  wait_for_others();\n  let_next_start();\n  if (rest >= (u32){}) return;\n", f_.across() > 0 ? extent(0) : "1");
  }

  std::string sums_text() {
    std::string out =
        fmt::format("  f32 sums[{}][V] = {{}};\n  const f32* const weights = (const f32*)p.pointer[1] + c{} * {}", f_.args.tile, f_.channel(), text_.stride(1, f_.channel()));
    for (size_t i = 0; i < f_.across(); ++i) {
      if (std::string s = text_.stride(1, i); s != "0ll") out += fmt::format(" + c{} * {}", i, s);
    }
    out += ";\n";
    // The other summed indices, outermost first. The rows of taps along the innermost of them are printed one after another if they are few.
    std::vector<size_t> others;
    for (size_t i = f_.conv.kept; i < f_.conv.map.dims.size(); ++i) {
      if (i != f_.line.tap) others.push_back(i);
    }
    const int64_t rows = others.empty() ? 1 : f_.conv.map.dims[others.back()].value();
    const bool printed = rows * f_.taps() * f_.args.tile * f_.args.vector <= kernels::launch_tuning::max_printed_products;
    for (size_t i : others) {
      if (!printed || i != others.back()) out += fmt::format("#pragma unroll 1\n  for (int c{} = 0; c{} < {}; ++c{})\n", i, i, f_.conv.map.dims[i].value(), i);
    }
    out += "  {\n";
    // As many rows are loaded together as registers hold, so that their loads overlap.
    const std::vector<int64_t> at = places_of(f_.line, f_.args.tile, f_.taps());
    const int64_t registers = divided_up(static_cast<int64_t>(at.size() * ir::size_of(f_.conv.of_a)) * f_.args.vector, 4) + f_.taps() * f_.args.vector;
    const int64_t together = printed ? std::clamp<int64_t>(kernels::depthwise_cuda_tuning::held_registers / registers, 1, rows) : 1;
    for (int64_t first = 0; first < (printed ? rows : 1); first += together) {
      std::string loads, products;
      for (int64_t row = first; row < std::min(rows, first + together); ++row) {
        std::vector<std::string> held;
        loads += row_loads(row, printed && !others.empty() ? others.back() : WindowLine::none, at, held);
        products += row_products(row, at, held);
      }
      out += "  {\n" + loads + products + "  }\n";
    }
    return out + "  }\n";
  }

  // Loads the places of a row and its taps. `index`: the summed index that is `row` as printed, if any. `held` says where each place is then: its channels, or
  // one element of a vector along the line.
  std::string row_loads(int64_t row, size_t index, const std::vector<int64_t>& at, std::vector<std::string>& held) {
    std::string out, a = fmt::format("(const {}*)p.pointer[0]", memory_type(f_.conv.of_a)), b = "weights", inside;
    if (index != WindowLine::none) out += fmt::format("    constexpr int c{} = {};\n", index, row);
    for (size_t j = 0; j < f_.conv.map.axes.size(); ++j) {
      if (f_.of_channels(j)) {
        a += fmt::format(" + c{} * {}", f_.channel(), text_.stride(0, j));
        continue;
      }
      out += fmt::format("    const int y{} = a{}", j, j);
      for (const ir::AffineMap::Term& t : f_.conv.map.axes[j].terms) {
        if (t.axis >= f_.conv.kept && t.axis != f_.line.tap) out += fmt::format(" + c{} * {}", t.axis, t.coefficient);
      }
      out += ";\n";
      if (f_.guarded(j) && j != f_.line.axis) inside += fmt::format("{}(u32)y{} < (u32){}", inside.empty() ? "" : " && ", j, text_.dim(0, j));
      if (std::string s = text_.stride(0, j); s != "0ll") a += fmt::format(" + y{} * {}", j, s);
    }
    for (size_t i = f_.conv.kept; i < f_.conv.map.dims.size(); ++i) {
      if (std::string s = text_.stride(1, i); i != f_.line.tap && s != "0ll") b += fmt::format(" + c{} * {}", i, s);
    }
    if (inside.empty()) inside = "true";
    out += fmt::format("    const bool in_image = {};\n    const {}* const line = {};\n    const f32* const taps = {};\n", inside, memory_type(f_.conv.of_a), a, b);
    const bool asks = f_.line.axis != WindowLine::none && (f_.guarded(f_.line.axis) || !f_.full_tiles());
    const std::string step = f_.line.axis == WindowLine::none ? "0ll" : text_.stride(0, f_.line.axis);
    // Vectors along a line begin at multiples of their size, so a vector is inside the line or outside.
    const int64_t each = f_.args.lines ? f_.access(0) : 1, offset = f_.args.lines ? f_.conv.map.axes[f_.line.axis].offset.value() : 0;
    std::vector<int64_t> starts;
    for (int64_t place : at) {
      const int64_t start = divided_down(place + offset, each) * each - offset;
      if (starts.empty() || starts.back() != start) starts.push_back(start);
      held.push_back(fmt::format("held{}[{}]{}", row, starts.size() - 1, f_.args.lines ? fmt::format(" + {}", place - start) : ""));
    }
    const std::string vector = f_.args.lines ? fmt::format("{}", each) : "V";
    for (size_t n = 0; n < starts.size(); ++n) {
      const std::string place = asks ? fmt::format("in_image && (u32)(y{} + {}) < (u32){}", f_.line.axis, starts[n], text_.dim(0, f_.line.axis)) : "in_image";
      out += fmt::format("    read_constant_if<{}>(held{}[{}], line + {} * {}, {});\n", vector, row, n, starts[n], step, place);
    }
    for (int64_t k = 0; k < f_.taps(); ++k) {
      const std::string from = fmt::format("w{}[{}], taps + {} * {}", row, k, k, f_.line.tap == WindowLine::none ? "0ll" : text_.stride(1, f_.line.tap));
      const bool whole = f_.args.lines || f_.args.operands[1].vector > 1;
      out += whole ? fmt::format("    read_constant<V>({});\n", from) : fmt::format("    read_strided<V>({}, {});\n", from, text_.stride(1, f_.channel()));
    }
    return fmt::format("    alignas(16) {} held{}[{}][{}];\n    alignas(16) f32 w{}[{}][V];\n    {{\n", memory_type(f_.conv.of_a), row, starts.size(), vector, row, f_.taps()) +
           out + "    }\n";
  }

  // The products of a row. Each input of the line is widened just before its first one.
  std::string row_products(int64_t row, const std::vector<int64_t>& at, const std::vector<std::string>& held) const {
    std::string out = fmt::format("    f32 x{}[{}][V];\n", row, at.size());
    std::vector<bool> wide(at.size(), false);
    for (int64_t k = 0; k < f_.taps(); ++k) {
      for (int64_t t = 0; t < f_.args.tile; ++t) {
        const auto n = static_cast<size_t>(std::lower_bound(at.begin(), at.end(), t * f_.line.step + k * f_.line.tap_step) - at.begin());
        if (!wide[n]) out += fmt::format("    widen<V>(x{}[{}], {});\n", row, n, held[n]);
        wide[n] = true;
        out += fmt::format("    add_products<V>(sums[{}], x{}[{}], w{}[{}]);\n", t, row, n, row, k);
      }
    }
    return out;
  }

  // The address of an operand at the line's output `o`, without channels.
  std::string at(size_t operand, const std::string& o) {
    std::string out = fmt::format("({}*)p.pointer[{}]", memory_type(f_.body.operands[operand]), kernels::body_operand(operand));
    for (size_t i = 0; i < f_.channel(); ++i) {
      if (std::string s = text_.stride(kernels::body_operand(operand), i); s != "0ll") out += fmt::format(" + {} * {}", i == f_.across() ? o : fmt::format("c{}", i), s);
    }
    return out;
  }
  std::string at_channel(size_t operand, const std::string& o) {
    const std::string s = text_.stride(kernels::body_operand(operand), f_.channel());
    return at(operand, o) + (s == "0ll" ? "" : fmt::format(" + c{} * {}", f_.channel(), s));
  }
  // Runs `code` for the outputs `first + t` that the line has, every `step`.
  std::string for_outputs(const std::string& code, int64_t step = 1) {
    const std::string ends = f_.full_tiles() ? "" : "  if (first + t >= width) break;\n";
    return fmt::format("#pragma unroll\n  for (int t = 0; t < {}; t += {}) {{\n{}  const int o = first + t;\n{}  }}\n", f_.args.tile, step, ends, code);
  }

  // All loads come before the first store: the result may share an operand's memory, element by element.
  std::string body_text() {
    std::string before, held, keep, results, put;
    std::vector<std::string> brought(f_.body.code.size());
    for (size_t k = 0; k < f_.body.code.size(); ++k) {
      const Instruction& i = f_.body.code[k];
      if (i.kind != Instruction::Kind::load) continue;
      const std::string_view type = memory_type(f_.body.operands[i.operand]);
      if (f_.args.lines) {
        // Of channels, or of outputs.
        const bool several = together(i.operand);
        const int64_t each = several ? f_.access(kernels::body_operand(i.operand)) : 1;
        before += fmt::format("  alignas(16) {} m{}[{}];\n", type, k, several ? f_.args.tile : 1);
        const std::string load = fmt::format("  read<{}>(m{}{}, {});\n", each, k, several ? " + t" : "", at_channel(i.operand, "o"));
        before += several || text_.stride(kernels::body_operand(i.operand), f_.across()) != "0ll" ? for_outputs(load, each) : load;
        brought[k] = fmt::format("value(m{}[{}])", k, several ? "t" : "0");
      } else if (together(i.operand)) {
        const bool is_same = text_.stride(kernels::body_operand(i.operand), f_.across()) == "0ll";
        (is_same ? before : held) += fmt::format("  alignas(16) {} m{}[V];\n  read<V>(m{}, {} + c{});\n", type, k, k, at(i.operand, "o"), f_.channel());
        brought[k] = fmt::format("value(m{}[v])", k);
      }
    }
    for (size_t s = 0; s < f_.body.stores.size(); ++s) {
      const Store& store = f_.body.stores[s];
      results += fmt::format("  alignas(16) {} o{}[{}][V];\n", memory_type(f_.body.operands[store.operand]), s, f_.args.tile);
      held += fmt::format("  {} x{}[V];\n", value_type(f_.body.code[store.value].dtype), s);
      keep += fmt::format("  keep<V>(o{}[t], x{});\n", s, s);
      if (f_.args.lines) {
        const int64_t each = together(store.operand) ? f_.access(kernels::body_operand(store.operand)) : 1;
        put += for_outputs(fmt::format("  write<{}>({}, o{}[t]);\n", each, at_channel(store.operand, "o"), s), each);
      } else if (f_.vectors && f_.transposed_store(store.operand)) {
        text_.take({Number::stride, static_cast<uint8_t>(kernels::body_operand(store.operand)), static_cast<uint8_t>(f_.across())}, 1);
        put += fmt::format("#pragma unroll\n  for (int v = 0; v < V; ++v) {{\n  alignas(16) {} line[{}];\n#pragma unroll\n  for (int t = 0; t < {}; ++t) line[t] = o{}[t][v];\n",
                           memory_type(f_.body.operands[store.operand]), f_.args.tile, f_.args.tile, s);
        put += fmt::format("  write<{}>({} + (c{} + v) * {}, line);\n  }}\n", f_.args.tile, at(store.operand, "first"), f_.channel(),
                           text_.stride(kernels::body_operand(store.operand), f_.channel()));
      } else if (together(store.operand)) {
        put += for_outputs(fmt::format("  write<V>({} + c{}, o{}[t]);\n", at(store.operand, "o"), f_.channel(), s));
      } else {
        put += for_outputs(fmt::format("  for (int v = 0; v < V; ++v) ({})[(c{} + v) * {}] = o{}[t][v];\n", at(store.operand, "o"), f_.channel(),
                                       text_.stride(kernels::body_operand(store.operand), f_.channel()), s));
      }
    }
    std::vector<std::string> coordinates;
    for (size_t i = 0; i < f_.conv.kept; ++i) coordinates.push_back(i == f_.across() ? "o" : i == f_.channel() ? fmt::format("(c{} + v)", i) : fmt::format("c{}", i));
    std::string code = text_.code(f_.body, 2, coordinates, {"sums[t][v]"}, brought, stores_halves(f_.body));
    for (size_t s = 0; s < f_.body.stores.size(); ++s) code += fmt::format("  x{}[v] = r{};\n", s, f_.body.stores[s].value);
    return before + results + for_outputs(held + "#pragma unroll\n  for (int v = 0; v < V; ++v) {\n" + code + "  }\n" + keep) + put;
  }

  DepthwiseForm f_;
  ElementText text_;
};

}  // namespace

std::optional<WindowObstacle> depthwise_conv_obstacle(const DepthwiseConv& w, const FusedBody& body, const std::vector<StridedLayout>& layouts) {
  const size_t rank = w.map.axes.size(), summed = w.map.dims.size() - w.kept;
  if (rank > Args::max_rank || w.kept < 2 || w.kept > Args::max_rank || summed > Args::max_rank) return WindowObstacle{Obstacle::types, "too many axes"};
  std::vector<Dim> ignored;
  if (!map_steps(w.map, ignored)) return WindowObstacle{Obstacle::types, "an index goes backwards"};
  const auto of_channels = axis_of_channels(w);
  const auto line = line_of(w);
  if (!of_channels) return WindowObstacle{Obstacle::types, "channels are not an axis"};
  if (!line) return WindowObstacle{Obstacle::types, "a line of outputs is not read along one axis"};
  int64_t taps = 1;
  for (size_t i = w.kept; i < w.map.dims.size(); ++i) taps *= std::clamp<int64_t>(w.map.dims[i].constant().value_or(INT32_MAX), 0, kernels::depthwise_cuda_tuning::max_taps + 1);
  if (taps < 1 || taps > kernels::depthwise_cuda_tuning::max_taps) return WindowObstacle{Obstacle::types, "the kernel is too large, or of unknown size"};
  const bool gathers = std::any_of(layouts.begin(), layouts.end(), [&](const StridedLayout& x) { return x.dims.size() != w.kept; });
  if (gathers || !is_of_elements(body) || body.row.size() != 1) return WindowObstacle{Obstacle::body, "the body does not compute single elements, or gathers"};
  if (!is(w.a.strides[*of_channels], 1) && !goes_along_lines(w, *line, layouts))
    return WindowObstacle{Obstacle::types, "neither channels nor outputs of a line are neighbours in all operands"};
  return std::nullopt;
}

EmittedStep emit_depthwise_conv(const DepthwiseConv& w, const FusedBody& body, const std::vector<StridedLayout>& body_layouts, const std::vector<int>& variants) {
  std::vector<StridedLayout> layouts{w.a, w.b};
  layouts.insert(layouts.end(), body_layouts.begin(), body_layouts.end());
  return Printer(w, body, std::move(layouts)).run(variants);
}

}  // namespace ingot::backend::cuda
