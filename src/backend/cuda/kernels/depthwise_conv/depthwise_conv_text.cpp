#include "backend/cuda/kernels/depthwise_conv/depthwise_conv_text.h"

#include <algorithm>
#include <numeric>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/expression.h"
#include "backend/cuda/kernels/depthwise_conv/depthwise_conv.cuh.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "base/error.h"
#include "base/hash.h"

namespace ingot::backend::cuda {

using Args = kernels::DepthwiseConvCudaArgs;
using Number = kernels::CudaNumber;
using Axis = ir::AffineMap::Axis;
using ir::Dim;

namespace {

bool is(const Dim& d, int64_t n) { return d.is_constant() && d.value() == n; }

int64_t coefficient(const Axis& axis, size_t index) {
  for (const ir::AffineMap::Term& t : axis.terms) {
    if (t.axis == index) return t.coefficient;
  }
  return 0;
}

// True if the channels (the last kept index) are one whole contiguous axis of A, and B has a value for each.
bool goes_along_channels(const DepthwiseConv& w) {
  const size_t channel = w.kept - 1;
  size_t axes = 0;
  for (size_t j = 0; j < w.map.axes.size(); ++j) {
    const Axis& axis = w.map.axes[j];
    if (coefficient(axis, channel) == 0) continue;
    ++axes;
    if (axis.terms.size() > 1 || coefficient(axis, channel) != 1 || !(axis.offset == Dim(0)) || !(w.a.dims[j] == w.map.dims[channel]) || !is(w.a.strides[j], 1)) return false;
  }
  return axes == 1 && w.b.dims[channel] == w.map.dims[channel];
}

// nullopt if the index before the channels moves along several axes, or shares its axis with other kept indices.
std::optional<DepthwiseLine> line_of(const DepthwiseConv& w) {
  const size_t across = w.kept - 2;
  DepthwiseLine line;
  if (!is(w.b.dims[across], 1) && !is(w.b.strides[across], 0)) return std::nullopt;
  for (size_t j = 0; j < w.map.axes.size(); ++j) {
    if (coefficient(w.map.axes[j], across) == 0) continue;
    if (line.axis != DepthwiseLine::none) return std::nullopt;
    line.axis = j;
    for (const ir::AffineMap::Term& t : w.map.axes[j].terms) {
      if (t.axis == across) {
        line.step = t.coefficient;
      } else if (t.axis < w.kept || line.tap != DepthwiseLine::none) {
        return std::nullopt;
      } else {
        line.tap = t.axis;
        line.tap_step = t.coefficient;
      }
    }
  }
  for (size_t j = 0; j < w.map.axes.size() && line.tap != DepthwiseLine::none; ++j) {
    if (j != line.axis && coefficient(w.map.axes[j], line.tap) != 0) return std::nullopt;
  }
  return line;
}

// True if the map certainly stays inside axis j of A.
bool stays_inside(const DepthwiseConv& w, size_t j) {
  const Axis& axis = w.map.axes[j];
  if (!axis.offset.is_constant() || axis.offset.value() < 0) return false;
  Dim left = w.a.dims[j] - Dim(1) - axis.offset;
  for (const ir::AffineMap::Term& t : axis.terms) left = left - Dim(t.coefficient) * (w.map.dims[t.axis] - Dim(1));
  return left.constant().value_or(-1) >= 0;
}

class Printer {
 public:
  Printer(const DepthwiseConv& site, const FusedBody& body, std::vector<StridedLayout> layouts)
      : w_(site), b_(body), layouts_(std::move(layouts)), line_(*line_of(site)), text_(layouts_, site.map.dims.size() + site.map.axes.size(), true) {}

  EmittedDepthwiseConv run(const std::vector<int>& variants) {
    EmittedDepthwiseConv out;
    args_.steps = *map_steps(w_.map, out.sizes);
    args_.rank = static_cast<uint8_t>(w_.map.axes.size());
    args_.kept = static_cast<uint8_t>(w_.kept);
    args_.summed = static_cast<uint8_t>(w_.map.dims.size() - w_.kept);
    args_.stores = static_cast<uint8_t>(b_.stores.size());
    args_.vector = channels_together;
    // Divide a line into equal parts: 14 outputs are 7 and 7.
    const int64_t width = std::max<int64_t>(1, w_.map.dims[across()].constant().value_or(most_outputs)), parts = (width + most_outputs - 1) / most_outputs;
    args_.tile = static_cast<uint8_t>(line_.axis == DepthwiseLine::none ? 1 : (width + parts - 1) / parts);
    args_.operands = {{w_.of_a, true}, {w_.type, is(w_.b.strides[channel()], 1)}};
    for (ir::DType type : b_.operands) args_.operands.push_back({type});
    for (size_t j = 0; j < w_.map.axes.size(); ++j) {
      if (stays_inside(w_, j)) args_.unguarded.push_back(static_cast<uint8_t>(j));
    }
    std::string work = place_text() + sums_text() + body_text();
    std::string text = fmt::format("struct @P {{ u64 status; void* pointer[{}]; i64 number[{}]; }};\n", layouts_.size(), std::max<size_t>(1, text_.numbers().size()));
    text += "template <int V>\n__device__ __forceinline__ void @work(const @P& p) {\n" + work + "}\n";
    for (int variant : variants) {
      text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) @{}(const __grid_constant__ @P p) {{ @work<{}>(p); }}\n", Args::threads, variant,
                          variant == 0 ? args_.vector : 1);
    }
    args_.name = fmt::format("depthwise_conv_{:016x}", hash64(std::as_bytes(std::span(text.data(), text.size()))));
    for (size_t at = 0; (at = text.find('@', at)) != std::string::npos;) text.replace(at, 1, args_.name + "_");
    out.sizes.insert(out.sizes.end(), text_.sizes().begin(), text_.sizes().end());
    args_.sizes = static_cast<uint32_t>(out.sizes.size());
    args_.numbers = text_.numbers();
    args_.known = text_.known();
    out.name = args_.name;
    out.text = std::move(text);
    for (int variant : variants) out.kernels.push_back(fmt::format("{}_{}", args_.name, variant));
    out.arguments = kernels::serialise(args_);
    return out;
  }

 private:
  // Outputs and channels per thread: many adjacent outputs, so that taps and inputs are loaded rarely, and as many channels as registers allow.
  static constexpr int64_t most_outputs = 8, unrolled_taps = 9;
  static constexpr uint8_t channels_together = 4;

  size_t channel() const { return w_.kept - 1; }
  size_t across() const { return w_.kept - 2; }
  int64_t taps() const { return line_.tap == DepthwiseLine::none ? 1 : w_.map.dims[line_.tap].value(); }
  std::string extent(size_t index) { return text_.number({Number::size, static_cast<uint8_t>(index), 0}, w_.map.dims[index]); }
  bool guarded(size_t j) const { return std::find(args_.unguarded.begin(), args_.unguarded.end(), j) == args_.unguarded.end(); }
  bool of_channels(size_t j) const { return coefficient(w_.map.axes[j], channel()) != 0; }
  bool full_tiles() const { return w_.map.dims[across()].is_constant() && w_.map.dims[across()].value() % args_.tile == 0; }

  // Prints which outputs and channels the thread has, and where their windows start along A's axes.
  std::string place_text() {
    std::string out = "  [[maybe_unused]] u64* const status = (u64*)p.status;\n  after_others();\n";
    out += fmt::format("  u32 rest = blockIdx.x * {}u + threadIdx.x;\n", Args::threads);
    out += fmt::format("  const u32 vectors = (u32){} / V;\n  const int c{} = (int)(rest % vectors) * V;\n  rest /= vectors;\n", extent(channel()), channel());
    out += fmt::format("  const int width = (int){};\n  const u32 tiles = (u32)(width + {}) / {};\n", extent(across()), args_.tile - 1, args_.tile);
    out += fmt::format("  const int first = (int)(rest % tiles) * {};\n  rest /= tiles;\n", args_.tile);
    for (size_t i = across(); i-- > 1;) out += fmt::format("  const int c{} = (int)(rest % (u32){});\n  rest /= (u32){};\n", i, extent(i), extent(i));
    out += across() > 0 ? fmt::format("  if (rest >= (u32){}) return;\n  const int c0 = (int)rest;\n", extent(0)) : "  if (rest > 0) return;\n";
    for (size_t j = 0; j < w_.map.axes.size(); ++j) {
      if (of_channels(j)) continue;
      out += fmt::format("  const int a{} = (int){}", j, text_.number({Number::size, static_cast<uint8_t>(w_.map.dims.size() + j), 0}, w_.map.axes[j].offset));
      for (const ir::AffineMap::Term& t : w_.map.axes[j].terms) {
        if (t.axis < w_.kept) out += fmt::format(" + {} * {}", t.axis == across() ? "first" : fmt::format("c{}", t.axis), t.coefficient);
      }
      out += ";\n";
    }
    return out;
  }

  // The positions along the line that the thread's windows cover, relative to the first.
  std::vector<int64_t> places() const {
    std::vector<int64_t> out;
    for (int64_t t = 0; t < args_.tile; ++t) {
      for (int64_t k = 0; k < taps(); ++k) out.push_back(t * line_.step + k * line_.tap_step);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  std::string sums_text() {
    std::string out = fmt::format("  f32 sums[{}][V] = {{}};\n  const f32* const weights = (const f32*)p.pointer[1] + c{} * {}", args_.tile, channel(), text_.stride(1, channel()));
    for (size_t i = 0; i < across(); ++i) {
      if (std::string s = text_.stride(1, i); s != "0ll") out += fmt::format(" + c{} * {}", i, s);
    }
    out += ";\n";
    // The other summed indices, outermost first.
    int64_t rows = 1;
    std::string b = "weights";
    for (size_t i = w_.kept; i < w_.map.dims.size(); ++i) {
      if (i == line_.tap) continue;
      rows *= w_.map.dims[i].value();
    }
    for (size_t i = w_.kept; i < w_.map.dims.size(); ++i) {
      if (i == line_.tap) continue;
      out += fmt::format("#pragma unroll {}\n  for (int c{} = 0; c{} < {}; ++c{})\n", rows * taps() <= unrolled_taps ? w_.map.dims[i].value() : 1, i, i, w_.map.dims[i].value(), i);
      if (std::string s = text_.stride(1, i); s != "0ll") b += fmt::format(" + c{} * {}", i, s);
    }
    return out + "  {\n" + row_text(b) + "  }\n";
  }

  // One row of taps. Each input of the line is loaded once, and widened just before its first product.
  std::string row_text(const std::string& weights) {
    std::string out, a = fmt::format("(const {}*)p.pointer[0] + c{}", memory_type(w_.of_a), channel()), condition;
    for (size_t j = 0; j < w_.map.axes.size(); ++j) {
      if (of_channels(j)) {
        text_.take({Number::stride, 0, static_cast<uint8_t>(j)}, 1);
        continue;
      }
      out += fmt::format("    const int y{} = a{}", j, j);
      for (const ir::AffineMap::Term& t : w_.map.axes[j].terms) {
        if (t.axis >= w_.kept && t.axis != line_.tap) out += fmt::format(" + c{} * {}", t.axis, t.coefficient);
      }
      out += ";\n";
      if (guarded(j) && j != line_.axis) condition += fmt::format("{}(u32)y{} < (u32){}", condition.empty() ? "" : " && ", j, text_.dim(0, j));
      if (std::string s = text_.stride(0, j); s != "0ll") a += fmt::format(" + y{} * {}", j, s);
    }
    out += fmt::format("    if ({}) {{\n      const {}* const line = {};\n      const f32* const taps = {};\n", condition.empty() ? "true" : condition, memory_type(w_.of_a), a,
                       weights);
    const std::vector<int64_t> at = places();
    out += fmt::format("      alignas(16) {} held[{}][V];\n      f32 x[{}][V];\n      alignas(16) f32 w[V];\n", memory_type(w_.of_a), at.size(), at.size());
    const bool asks = line_.axis != DepthwiseLine::none && (guarded(line_.axis) || !full_tiles());
    const std::string step = line_.axis == DepthwiseLine::none ? "0ll" : text_.stride(0, line_.axis);
    for (size_t n = 0; n < at.size(); ++n) {
      const std::string is_inside = asks ? fmt::format("(u32)(y{} + {}) < (u32){}", line_.axis, at[n], text_.dim(0, line_.axis)) : "true";
      out += fmt::format("      bring<V>(held[{}], line + {} * {}, {});\n", n, at[n], step, is_inside);
    }
    std::vector<bool> wide(at.size(), false);
    for (int64_t k = 0; k < taps(); ++k) {
      const std::string from = fmt::format("taps + {} * {}", k, line_.tap == DepthwiseLine::none ? "0ll" : text_.stride(1, line_.tap));
      out +=
          args_.operands[1].together ? fmt::format("      read_constant<V>(w, {});\n", from) : fmt::format("      read_apart<V>(w, {}, {});\n", from, text_.stride(1, channel()));
      for (int64_t t = 0; t < args_.tile; ++t) {
        const auto n = static_cast<size_t>(std::lower_bound(at.begin(), at.end(), t * line_.step + k * line_.tap_step) - at.begin());
        if (!wide[n]) out += fmt::format("      widen<V>(x[{}], held[{}]);\n", n, n);
        wide[n] = true;
        out += fmt::format("      add_products<V>(sums[{}], x[{}], w);\n", t, n);
      }
    }
    return out + "    }\n";
  }

  // True if the body's operand is contiguous along channels, so that it is accessed in vectors.
  bool together(size_t operand) {
    const StridedLayout& x = layouts_[2 + operand];
    if (is(x.dims[channel()], 1) || !is(x.strides[channel()], 1)) return false;
    text_.take({Number::stride, static_cast<uint8_t>(2 + operand), static_cast<uint8_t>(channel())}, 1);
    args_.operands[2 + operand].together = true;
    return true;
  }
  // The address of an operand at the line's output x, without channels.
  std::string at(size_t operand) {
    std::string out = fmt::format("({}*)p.pointer[{}]", memory_type(b_.operands[operand]), 2 + operand);
    for (size_t i = 0; i < channel(); ++i) {
      if (std::string s = text_.stride(2 + operand, i); s != "0ll") out += fmt::format(" + {} * {}", i == across() ? "o" : fmt::format("c{}", i), s);
    }
    return out;
  }

  // All loads come before the first store: the result may share an operand's memory, element by element.
  std::string body_text() {
    std::string same, held, keep, results, put;
    std::vector<std::string> brought(b_.code.size());
    for (size_t k = 0; k < b_.code.size(); ++k) {
      const Instruction& i = b_.code[k];
      if (i.kind != Instruction::Kind::load || !together(i.operand)) continue;
      const bool is_same = text_.stride(2 + i.operand, across()) == "0ll";
      (is_same ? same : held) += fmt::format("  alignas(16) {} m{}[V];\n  read<V>(m{}, {} + c{});\n", memory_type(b_.operands[i.operand]), k, k, at(i.operand), channel());
      brought[k] = fmt::format("value(m{}[v])", k);
    }
    for (size_t s = 0; s < b_.stores.size(); ++s) {
      const Store& store = b_.stores[s];
      const std::string_view type = memory_type(b_.operands[store.operand]);
      results += fmt::format("  alignas(16) {} o{}[{}][V];\n", type, s, args_.tile);
      held += fmt::format("  {} x{}[V];\n", value_type(b_.code[store.value].dtype), s);
      keep += fmt::format("  keep<V>(o{}[t], x{});\n", s, s);
      if (together(store.operand)) {
        put += fmt::format("  write<V>({} + c{}, o{}[t]);\n", at(store.operand), channel(), s);
      } else {
        put += fmt::format("  for (int v = 0; v < V; ++v) ({})[(c{} + v) * {}] = o{}[t][v];\n", at(store.operand), channel(), text_.stride(2 + store.operand, channel()), s);
      }
    }
    std::vector<std::string> coordinates;
    for (size_t i = 0; i < w_.kept; ++i) coordinates.push_back(i == across() ? "o" : i == channel() ? fmt::format("(c{} + v)", i) : fmt::format("c{}", i));
    std::string code = text_.code(b_, 2, coordinates, {"sums[t][v]"}, brought, stores_halves(b_));
    for (size_t s = 0; s < b_.stores.size(); ++s) code += fmt::format("  x{}[v] = r{};\n", s, b_.stores[s].value);
    const std::string outputs = fmt::format("#pragma unroll\n  for (int t = 0; t < {}; ++t) {{\n  const int o = first + t;\n  if (o >= width) break;\n", args_.tile);
    return same + results + outputs + held + "#pragma unroll\n  for (int v = 0; v < V; ++v) {\n" + code + "  }\n" + keep + "  }\n" + outputs + put + "  }\n";
  }

  const DepthwiseConv& w_;
  const FusedBody& b_;
  const std::vector<StridedLayout> layouts_;
  DepthwiseLine line_;
  ElementText text_;
  Args args_;
};

}  // namespace

std::string_view depthwise_conv_text() { return depthwise_conv_cuh; }

std::optional<DepthwiseObstacle> depthwise_conv_obstacle(const DepthwiseConv& w, const FusedBody& body, const std::vector<StridedLayout>& layouts) {
  const size_t rank = w.map.axes.size(), summed = w.map.dims.size() - w.kept;
  if (rank > Args::max_rank || w.kept < 2 || w.kept > Args::max_rank || summed > Args::max_rank) return DepthwiseObstacle{Obstacle::types, "too many axes"};
  std::vector<Dim> ignored;
  if (!map_steps(w.map, ignored)) return DepthwiseObstacle{Obstacle::types, "an index goes backwards"};
  if (!goes_along_channels(w)) return DepthwiseObstacle{Obstacle::types, "channels are not the innermost axis"};
  if (!line_of(w)) return DepthwiseObstacle{Obstacle::types, "a line of outputs is not read along one axis"};
  int64_t taps = 1;
  for (size_t i = w.kept; i < w.map.dims.size(); ++i) taps *= std::clamp<int64_t>(w.map.dims[i].constant().value_or(INT32_MAX), 0, Args::max_taps + 1);
  if (taps < 1 || taps > Args::max_taps) return DepthwiseObstacle{Obstacle::types, "the kernel is too large, or of unknown size"};
  const bool gathers = std::any_of(layouts.begin(), layouts.end(), [&](const StridedLayout& x) { return x.dims.size() != w.kept; });
  if (gathers || !is_of_elements(body) || body.row.size() != 1) return DepthwiseObstacle{Obstacle::body, "the body does not compute single elements, or gathers"};
  return std::nullopt;
}

EmittedDepthwiseConv emit_depthwise_conv(const DepthwiseConv& w, const FusedBody& body, const std::vector<StridedLayout>& body_layouts, const std::vector<int>& variants) {
  std::vector<StridedLayout> layouts{w.a, w.b};
  layouts.insert(layouts.end(), body_layouts.begin(), body_layouts.end());
  return Printer(w, body, std::move(layouts)).run(variants);
}

}  // namespace ingot::backend::cuda
