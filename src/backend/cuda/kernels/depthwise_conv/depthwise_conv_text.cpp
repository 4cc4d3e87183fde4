#include "backend/cuda/kernels/depthwise_conv/depthwise_conv_text.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/expression.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/cuda/kernels/gemm/gemm.h"
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

class Printer {
 public:
  Printer(const DepthwiseConv& site, const FusedBody& body, std::vector<StridedLayout> layouts)
      : w_(site),
        b_(body),
        layouts_(std::move(layouts)),
        line_(*line_of(site)),
        lines_(!is(site.a.strides[*axis_of_channels(site)], 1)),
        turns_(!lines_ && stores_along_lines()),
        text_(layouts_, site.map.dims.size() + site.map.axes.size(), true) {}

  EmittedStep run(const std::vector<int>& variants) {
    std::vector<Dim> sizes;
    take_map(w_.map, w_.kept, w_.a, b_, args_, sizes);
    args_.lines = lines_;
    args_.vector = lines_ ? 1 : channels_together;
    args_.tile = static_cast<uint8_t>(outputs_together());
    args_.operands = {{w_.of_a, lines_ ? in_access(w_.of_a, w_.a.dims[line_.axis], args_.tile * line_.step) : args_.vector},
                      {w_.type, !lines_ && is(w_.b.strides[channel()], 1) ? args_.vector : uint8_t{1}}};
    for (size_t k = 0; k < b_.operands.size(); ++k) args_.operands.push_back({b_.operands[k], in_access_of_body(k)});
    PrintedKernels printed;
    for (int variant : variants) {
      vectors_ = variant == 0;
      std::string body = fmt::format("  constexpr int V = {};\n", vectors_ ? args_.vector : 1);
      body += place_text() + sums_text() + body_text();
      printed.kernels.push_back({std::to_string(variant), fmt::format("__launch_bounds__({}, {})", Args::threads, blocks_together), std::move(body), {windows_text}});
    }
    finish_windows(printed, text_, layouts_.size(), args_, sizes);
    return window_step("depthwise_conv", "depthwise_conv", printed, args_, sizes);
  }

 private:
  // Outputs and channels per thread, products that are printed one after another, registers for what is loaded together, and threads that keep a large GPU busy.
  // With more outputs a thread loads taps and inputs less often, but a small image is then the work of a few multiprocessors, which wait for memory.
  static constexpr int64_t most_outputs = 8, most_printed = 400, most_held = 90, busy = int64_t{132} * 256;
  static constexpr uint8_t channels_together = 4;
  // Per multiprocessor. Told so, the compiler uses registers for loads that overlap; else it delays loads until as many threads as possible fit.
  static constexpr int blocks_together = 4;

  size_t channel() const { return w_.kept - 1; }
  size_t across() const { return w_.kept - 2; }
  int64_t taps() const { return line_.tap == WindowLine::none ? 1 : w_.map.dims[line_.tap].value(); }
  std::string extent(size_t index) { return text_.number({Number::size, static_cast<uint8_t>(index), 0}, w_.map.dims[index]); }
  bool guarded(size_t j) const { return std::find(args_.unguarded.begin(), args_.unguarded.end(), j) == args_.unguarded.end(); }
  bool of_channels(size_t j) const { return coefficient(w_.map.axes[j], channel()) != 0; }
  bool full_tiles() const { return w_.map.dims[across()].is_constant() && w_.map.dims[across()].value() % args_.tile == 0; }

  // True if the body's operand is contiguous along lines, not along channels.
  bool lies_along_lines(size_t operand) const {
    const StridedLayout& x = layouts_[kernels::body_operand(operand)];
    return is(x.strides[across()], 1) && !is(x.dims[across()], 1) && !is(x.strides[channel()], 1);
  }
  bool stores_along_lines() const {
    return std::any_of(b_.stores.begin(), b_.stores.end(), [&](const Store& s) { return lies_along_lines(s.operand); });
  }
  // Channels of adjacent threads if results lie along lines: as many as fill 32 bytes of A, the least that memory moves. The next threads have the next outputs of the line.
  int64_t channels_beside() const {
    const int64_t channels = w_.map.dims[channel()].constant().value_or(1);
    return std::gcd(channels, 32 / static_cast<int64_t>(ir::size_of(w_.of_a)));
  }

  // Adjacent outputs per thread.
  int64_t outputs_together() const {
    if (line_.axis == WindowLine::none) return 1;
    Dim all = 1;
    for (size_t i = 0; i < w_.kept; ++i) all *= w_.map.dims[i];
    const int64_t width = std::max<int64_t>(1, w_.map.dims[across()].constant().value_or(most_outputs));
    int64_t most = most_outputs;
    if (all.is_constant()) most = std::clamp<int64_t>(all.value() / ((lines_ ? 1 : channels_together) * busy), 1, most_outputs);
    // Along lines, whole vectors. Else a line is divided into equal parts: 14 outputs are 7 and 7.
    if (lines_) return std::max<int64_t>(std::min<int64_t>(4, std::bit_ceil(static_cast<uint64_t>(width))), std::bit_floor(static_cast<uint64_t>(std::min(most, width))));
    const int64_t stored = turns_ ? std::gcd(w_.map.dims[across()].constant().value_or(1), 4) : 1;  // outputs that can be stored together
    if (stored > 1) return std::min<int64_t>(stored, std::max<int64_t>(2, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(most)))));
    return divided_up(width, divided_up(width, most));
  }

  // Elements per access along a line of this size, where threads are `advance` elements apart.
  static uint8_t in_access(ir::DType type, const Dim& size, int64_t advance) {
    return static_cast<uint8_t>(std::gcd(std::gcd(16 / static_cast<int64_t>(ir::size_of(type)), advance), size.constant().value_or(0)));
  }
  // Elements of the body's operand per access: channels, or outputs of a line.
  uint8_t in_access_of_body(size_t operand) const {
    const StridedLayout& x = layouts_[kernels::body_operand(operand)];
    const size_t along = lines_ ? across() : channel();
    if (turned_store(operand)) return args_.tile;
    if (is(x.dims[along], 1) || !is(x.strides[along], 1)) return 1;
    return lines_ ? in_access(b_.operands[operand], w_.map.dims[along], args_.tile) : args_.vector;
  }
  // True if the body's operand is loaded or stored in vectors.
  bool together(size_t operand) {
    const size_t along = lines_ ? across() : channel();
    const StridedLayout& x = layouts_[kernels::body_operand(operand)];
    if (is(x.dims[along], 1) || !is(x.strides[along], 1)) return false;
    text_.take({Number::stride, static_cast<uint8_t>(kernels::body_operand(operand)), static_cast<uint8_t>(along)}, 1);
    return true;
  }
  // True if a thread's outputs of a line are stored together, channel after channel.
  bool turned_store(size_t operand) const {
    const bool stored = std::any_of(b_.stores.begin(), b_.stores.end(), [&](const Store& s) { return s.operand == operand; });
    return turns_ && stored && lies_along_lines(operand) && args_.tile > 1 && full_tiles();
  }
  int64_t access(size_t operand) const { return vectors_ ? args_.operands[operand].vector : 1; }

  // Prints which outputs and channels the thread has, and where their windows start along A's axes.
  std::string place_text() {
    std::string out = "  [[maybe_unused]] u64* const status = (u64*)p.status;\n  let_next_start();\n";
    out += fmt::format("  u32 rest = blockIdx.x * {}u + threadIdx.x;\n", Args::threads);
    std::string vector = fmt::format("  const u32 vectors = (u32){} / V;\n  const int c{} = (int)(rest % vectors) * V;\n  rest /= vectors;\n", extent(channel()), channel());
    if (turns_) {
      out += fmt::format("  constexpr u32 beside = {} > V ? {} / V : 1;\n  const u32 own = rest % beside;\n  rest /= beside;\n", channels_beside(), channels_beside());
      vector = fmt::format("  const u32 vectors = (u32){} / V / beside;\n  const int c{} = (int)(rest % vectors * beside + own) * V;\n  rest /= vectors;\n", extent(channel()),
                           channel());
    }
    if (!lines_ && !turns_) out += vector;
    out += fmt::format("  const int width = (int){};\n  const u32 tiles = (u32)(width + {}) / {};\n", extent(across()), args_.tile - 1, args_.tile);
    out += fmt::format("  const int first = (int)(rest % tiles) * {};\n  rest /= tiles;\n", args_.tile);
    if (lines_ || turns_) out += vector;
    for (size_t i = across(); i-- > 1;) out += fmt::format("  const int c{} = (int)(rest % (u32){});\n  rest /= (u32){};\n", i, extent(i), extent(i));
    if (across() > 0) out += "  const int c0 = (int)rest;\n";
    for (size_t j = 0; j < w_.map.axes.size(); ++j) {
      if (of_channels(j)) continue;
      out += fmt::format("  const int a{} = (int){}", j, text_.number({Number::size, static_cast<uint8_t>(w_.map.dims.size() + j), 0}, w_.map.axes[j].offset));
      for (const ir::AffineMap::Term& t : w_.map.axes[j].terms) {
        if (t.axis < w_.kept) out += fmt::format(" + {} * {}", t.axis == across() ? "first" : fmt::format("c{}", t.axis), t.coefficient);
      }
      out += ";\n";
    }
    return out + fmt::format("  wait_for_others();\n  if (rest >= (u32){}) return;\n", across() > 0 ? extent(0) : "1");
  }

  std::string sums_text() {
    std::string out = fmt::format("  f32 sums[{}][V] = {{}};\n  const f32* const weights = (const f32*)p.pointer[1] + c{} * {}", args_.tile, channel(), text_.stride(1, channel()));
    for (size_t i = 0; i < across(); ++i) {
      if (std::string s = text_.stride(1, i); s != "0ll") out += fmt::format(" + c{} * {}", i, s);
    }
    out += ";\n";
    // The other summed indices, outermost first. The rows of taps along the innermost of them are printed one after another if they are few.
    std::vector<size_t> others;
    for (size_t i = w_.kept; i < w_.map.dims.size(); ++i) {
      if (i != line_.tap) others.push_back(i);
    }
    const int64_t rows = others.empty() ? 1 : w_.map.dims[others.back()].value();
    const bool printed = rows * taps() * args_.tile * args_.vector <= most_printed;
    for (size_t i : others) {
      if (!printed || i != others.back()) out += fmt::format("#pragma unroll 1\n  for (int c{} = 0; c{} < {}; ++c{})\n", i, i, w_.map.dims[i].value(), i);
    }
    out += "  {\n";
    // As many rows are loaded together as registers hold, so that their loads overlap.
    const std::vector<int64_t> at = places_of(line_, args_.tile, taps());
    const int64_t registers = divided_up(static_cast<int64_t>(at.size() * ir::size_of(w_.of_a)) * args_.vector, 4) + taps() * args_.vector;
    const int64_t together = printed ? std::clamp<int64_t>(most_held / registers, 1, rows) : 1;
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
    std::string out, a = fmt::format("(const {}*)p.pointer[0]", memory_type(w_.of_a)), b = "weights", inside;
    if (index != WindowLine::none) out += fmt::format("    constexpr int c{} = {};\n", index, row);
    for (size_t j = 0; j < w_.map.axes.size(); ++j) {
      if (of_channels(j)) {
        a += fmt::format(" + c{} * {}", channel(), text_.stride(0, j));
        continue;
      }
      out += fmt::format("    const int y{} = a{}", j, j);
      for (const ir::AffineMap::Term& t : w_.map.axes[j].terms) {
        if (t.axis >= w_.kept && t.axis != line_.tap) out += fmt::format(" + c{} * {}", t.axis, t.coefficient);
      }
      out += ";\n";
      if (guarded(j) && j != line_.axis) inside += fmt::format("{}(u32)y{} < (u32){}", inside.empty() ? "" : " && ", j, text_.dim(0, j));
      if (std::string s = text_.stride(0, j); s != "0ll") a += fmt::format(" + y{} * {}", j, s);
    }
    for (size_t i = w_.kept; i < w_.map.dims.size(); ++i) {
      if (std::string s = text_.stride(1, i); i != line_.tap && s != "0ll") b += fmt::format(" + c{} * {}", i, s);
    }
    if (inside.empty()) inside = "true";
    out += fmt::format("    const bool in_image = {};\n    const {}* const line = {};\n    const f32* const taps = {};\n", inside, memory_type(w_.of_a), a, b);
    const bool asks = line_.axis != WindowLine::none && (guarded(line_.axis) || !full_tiles());
    const std::string step = line_.axis == WindowLine::none ? "0ll" : text_.stride(0, line_.axis);
    // Vectors along a line begin at multiples of their size, so all of a vector lies inside the line or none.
    const int64_t each = lines_ ? access(0) : 1, offset = lines_ ? w_.map.axes[line_.axis].offset.value() : 0;
    std::vector<int64_t> starts;
    for (int64_t place : at) {
      const int64_t start = divided_down(place + offset, each) * each - offset;
      if (starts.empty() || starts.back() != start) starts.push_back(start);
      held.push_back(fmt::format("held{}[{}]{}", row, starts.size() - 1, lines_ ? fmt::format(" + {}", place - start) : ""));
    }
    const std::string vector = lines_ ? fmt::format("{}", each) : "V";
    for (size_t n = 0; n < starts.size(); ++n) {
      const std::string place = asks ? fmt::format("in_image && (u32)(y{} + {}) < (u32){}", line_.axis, starts[n], text_.dim(0, line_.axis)) : "in_image";
      out += fmt::format("    read_constant_if<{}>(held{}[{}], line + {} * {}, {});\n", vector, row, n, starts[n], step, place);
    }
    for (int64_t k = 0; k < taps(); ++k) {
      const std::string from = fmt::format("w{}[{}], taps + {} * {}", row, k, k, line_.tap == WindowLine::none ? "0ll" : text_.stride(1, line_.tap));
      const bool whole = lines_ || args_.operands[1].vector > 1;
      out += whole ? fmt::format("    read_constant<V>({});\n", from) : fmt::format("    read_apart<V>({}, {});\n", from, text_.stride(1, channel()));
    }
    return fmt::format("    alignas(16) {} held{}[{}][{}];\n    alignas(16) f32 w{}[{}][V];\n    {{\n", memory_type(w_.of_a), row, starts.size(), vector, row, taps()) + out +
           "    }\n";
  }

  // The products of a row. Each input of the line is widened just before its first one.
  std::string row_products(int64_t row, const std::vector<int64_t>& at, const std::vector<std::string>& held) const {
    std::string out = fmt::format("    f32 x{}[{}][V];\n", row, at.size());
    std::vector<bool> wide(at.size(), false);
    for (int64_t k = 0; k < taps(); ++k) {
      for (int64_t t = 0; t < args_.tile; ++t) {
        const auto n = static_cast<size_t>(std::lower_bound(at.begin(), at.end(), t * line_.step + k * line_.tap_step) - at.begin());
        if (!wide[n]) out += fmt::format("    widen<V>(x{}[{}], {});\n", row, n, held[n]);
        wide[n] = true;
        out += fmt::format("    add_products<V>(sums[{}], x{}[{}], w{}[{}]);\n", t, row, n, row, k);
      }
    }
    return out;
  }

  // The address of an operand at the line's output `o`, without channels.
  std::string at(size_t operand, const std::string& o) {
    std::string out = fmt::format("({}*)p.pointer[{}]", memory_type(b_.operands[operand]), kernels::body_operand(operand));
    for (size_t i = 0; i < channel(); ++i) {
      if (std::string s = text_.stride(kernels::body_operand(operand), i); s != "0ll") out += fmt::format(" + {} * {}", i == across() ? o : fmt::format("c{}", i), s);
    }
    return out;
  }
  std::string at_channel(size_t operand, const std::string& o) {
    const std::string s = text_.stride(kernels::body_operand(operand), channel());
    return at(operand, o) + (s == "0ll" ? "" : fmt::format(" + c{} * {}", channel(), s));
  }
  // Runs `code` for the outputs `first + t` that the line has, every `step`.
  std::string for_outputs(const std::string& code, int64_t step = 1) {
    const std::string ends = full_tiles() ? "" : "  if (first + t >= width) break;\n";
    return fmt::format("#pragma unroll\n  for (int t = 0; t < {}; t += {}) {{\n{}  const int o = first + t;\n{}  }}\n", args_.tile, step, ends, code);
  }

  // All loads come before the first store: the result may share an operand's memory, element by element.
  std::string body_text() {
    std::string before, held, keep, results, put;
    std::vector<std::string> brought(b_.code.size());
    for (size_t k = 0; k < b_.code.size(); ++k) {
      const Instruction& i = b_.code[k];
      if (i.kind != Instruction::Kind::load) continue;
      const std::string_view type = memory_type(b_.operands[i.operand]);
      if (lines_) {
        // Of channels, or of outputs.
        const bool several = together(i.operand);
        const int64_t each = several ? access(kernels::body_operand(i.operand)) : 1;
        before += fmt::format("  alignas(16) {} m{}[{}];\n", type, k, several ? args_.tile : 1);
        const std::string load = fmt::format("  read<{}>(m{}{}, {});\n", each, k, several ? " + t" : "", at_channel(i.operand, "o"));
        before += several || text_.stride(kernels::body_operand(i.operand), across()) != "0ll" ? for_outputs(load, each) : load;
        brought[k] = fmt::format("value(m{}[{}])", k, several ? "t" : "0");
      } else if (together(i.operand)) {
        const bool is_same = text_.stride(kernels::body_operand(i.operand), across()) == "0ll";
        (is_same ? before : held) += fmt::format("  alignas(16) {} m{}[V];\n  read<V>(m{}, {} + c{});\n", type, k, k, at(i.operand, "o"), channel());
        brought[k] = fmt::format("value(m{}[v])", k);
      }
    }
    for (size_t s = 0; s < b_.stores.size(); ++s) {
      const Store& store = b_.stores[s];
      results += fmt::format("  alignas(16) {} o{}[{}][V];\n", memory_type(b_.operands[store.operand]), s, args_.tile);
      held += fmt::format("  {} x{}[V];\n", value_type(b_.code[store.value].dtype), s);
      keep += fmt::format("  keep<V>(o{}[t], x{});\n", s, s);
      if (lines_) {
        const int64_t each = together(store.operand) ? access(kernels::body_operand(store.operand)) : 1;
        put += for_outputs(fmt::format("  write<{}>({}, o{}[t]);\n", each, at_channel(store.operand, "o"), s), each);
      } else if (vectors_ && turned_store(store.operand)) {
        text_.take({Number::stride, static_cast<uint8_t>(kernels::body_operand(store.operand)), static_cast<uint8_t>(across())}, 1);
        put += fmt::format("#pragma unroll\n  for (int v = 0; v < V; ++v) {{\n  alignas(16) {} line[{}];\n#pragma unroll\n  for (int t = 0; t < {}; ++t) line[t] = o{}[t][v];\n",
                           memory_type(b_.operands[store.operand]), args_.tile, args_.tile, s);
        put += fmt::format("  write<{}>({} + (c{} + v) * {}, line);\n  }}\n", args_.tile, at(store.operand, "first"), channel(),
                           text_.stride(kernels::body_operand(store.operand), channel()));
      } else if (together(store.operand)) {
        put += for_outputs(fmt::format("  write<V>({} + c{}, o{}[t]);\n", at(store.operand, "o"), channel(), s));
      } else {
        put += for_outputs(fmt::format("  for (int v = 0; v < V; ++v) ({})[(c{} + v) * {}] = o{}[t][v];\n", at(store.operand, "o"), channel(),
                                       text_.stride(kernels::body_operand(store.operand), channel()), s));
      }
    }
    std::vector<std::string> coordinates;
    for (size_t i = 0; i < w_.kept; ++i) coordinates.push_back(i == across() ? "o" : i == channel() ? fmt::format("(c{} + v)", i) : fmt::format("c{}", i));
    std::string code = text_.code(b_, 2, coordinates, {"sums[t][v]"}, brought, stores_halves(b_));
    for (size_t s = 0; s < b_.stores.size(); ++s) code += fmt::format("  x{}[v] = r{};\n", s, b_.stores[s].value);
    return before + results + for_outputs(held + "#pragma unroll\n  for (int v = 0; v < V; ++v) {\n" + code + "  }\n" + keep) + put;
  }

  const DepthwiseConv& w_;
  const FusedBody& b_;
  const std::vector<StridedLayout> layouts_;
  WindowLine line_;
  const bool lines_;     // threads are neighbours along lines, not along channels
  const bool turns_;     // threads are neighbours along channels, but a result lies along lines
  bool vectors_ = true;  // of the variant that is printed
  ElementText text_;
  Args args_;
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
  for (size_t i = w.kept; i < w.map.dims.size(); ++i) taps *= std::clamp<int64_t>(w.map.dims[i].constant().value_or(INT32_MAX), 0, Args::max_taps + 1);
  if (taps < 1 || taps > Args::max_taps) return WindowObstacle{Obstacle::types, "the kernel is too large, or of unknown size"};
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
