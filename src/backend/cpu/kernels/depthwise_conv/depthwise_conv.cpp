// Offers depthwise convolutions with vectors along the channels (depthwise_conv), or along lines of the image (depthwise_lines).
#include <algorithm>
#include <functional>
#include <numeric>

#include "backend/cpu/compile/along_lines.h"
#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/depthwise_conv/run/cost.h"
#include "kernels/depthwise_conv/run/depthwise_conv_args.h"

namespace ingot::backend::cpu {

namespace {

using Args = kernels::DepthwiseConvArgs;

// True if channels are the last kept index, contiguous in both operands and never outside, and if the index before them
// shares no bordered axis with another one.
bool goes_along_channels(const DepthwiseConv& w) {
  const auto channel = static_cast<uint32_t>(w.kept - 1), across = channel - 1;
  if (!(step_in_memory(w.map, w.a, channel) == ir::Dim(1)) || !(w.b.strides[channel] == ir::Dim(1))) return false;
  for (size_t j = 0; j < w.map.axes.size(); ++j) {
    const ir::AffineMap::Axis& axis = w.map.axes[j];
    size_t kept = 0;
    bool of_channels = false, of_line = false;
    for (const ir::AffineMap::Term& t : axis.terms) {
      kept += t.axis < w.kept;
      of_channels = of_channels || t.axis == channel;
      of_line = of_line || t.axis == across;
    }
    if (of_line && kept > 1) return false;
    if (of_channels && (axis.terms.size() > 1 || axis.terms[0].coefficient != 1 || !(axis.offset == ir::Dim(0)) || !(w.a.dims[j] == w.map.dims[channel]))) return false;
  }
  return true;
}

// Outputs of a line, if vectors may go along lines.
std::optional<int64_t> along_lines(const Site& site, const DepthwiseConv& w) {
  if (w.map.dims.empty() || site.body == nullptr) return std::nullopt;  // a sketch
  LineResults kept;
  const StridedLayout& to = site.body_operand(site.body->stores[0].operand);
  if (!is_placed(to) || to.dims.size() != w.kept) return std::nullopt;
  kept.steps = to.strides;
  for (const Instruction& i : site.body->code) {
    if (i.kind == Instruction::Kind::load) kept.loads.push_back(site.body_operand(i.operand).strides);
  }
  kept.loads.emplace_back(w.b.strides.begin(), w.b.strides.begin() + static_cast<int64_t>(w.kept));
  return line_length(w.map, w.a, kept, *site.body);
}

std::optional<std::string> obstacle(const DepthwiseConv& w, bool lines) {
  if (w.type != ir::DType::f32 || w.of_a != w.type) return "for float32 only";
  if (w.map.dims.empty()) return std::nullopt;  // a sketch
  const size_t rank = w.map.axes.size(), summed = w.map.dims.size() - w.kept;
  if (rank > Args::max_rank || w.kept < 2 || w.kept > Args::max_rank || summed > Args::max_rank) return "too many axes";
  if (!lines && !goes_along_channels(w)) return "channels are not the innermost axis";
  const ir::Dim places = std::accumulate(w.map.dims.begin() + static_cast<int64_t>(w.kept), w.map.dims.end(), ir::Dim(1), std::multiplies<>());
  if (places.constant().value_or(INT64_MAX) > Args::max_summed) return "the kernel is too large, or of unknown size";
  std::vector<ir::Dim> ignored;
  if (!map_steps(w.map, ignored)) return "an index goes backwards";
  return std::nullopt;
}

EmittedStep emit_step(std::string_view kernel, const DepthwiseConv& w, const FusedBody& body) {
  EmittedStep step{std::string(kernel), {}, {}};
  auto steps = map_steps(w.map, step.sizes);
  Emitted code = emit(body);
  step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
  const size_t rank = w.map.axes.size(), summed = w.map.dims.size() - w.kept;
  step.constants = kernels::serialise(Args{static_cast<uint8_t>(rank), static_cast<uint8_t>(w.kept), static_cast<uint8_t>(summed), std::move(*steps), code.code});
  return step;
}

// What both kernels' offers ask of a site, once.
struct Reading {
  bool along_channels = false;
  std::optional<int64_t> line;             // outputs of a line, if depthwise_lines can compute it
  std::optional<std::string> obstacle;     // to depthwise_conv
  double channels = 0, lines = 0;          // nanoseconds: of vectors along channels, and where images do not lie so, of their copies; of vectors along lines
};

double product(std::span<const ir::Dim> dims, const Site& site) {
  double out = 1;
  for (const ir::Dim& d : dims) out *= static_cast<double>(site.usual(d).value_or(1));
  return out;
}

// The step from one output of a line to the next in the image, and whether windows leave it: then lines are copied.
void set_line(const DepthwiseConv& w, const ir::Dims& steps, kernels::conv::ConvSizes& s) {
  size_t x = w.kept;
  while (x > 1 && (w.map.dims[x - 1] == ir::Dim(1) || !(steps[x - 1] == ir::Dim(1)))) --x;
  for (const ir::AffineMap::Axis& axis : w.map.axes) {
    for (const ir::AffineMap::Term& t : axis.terms) {
      if (t.axis + 1 == x) s.step = std::max<int64_t>(s.step, t.coefficient);
    }
    if (!(axis.offset == ir::Dim(0))) s.inside = 0;  // of no window it is known more exactly
  }
}

Reading read(const Site& site, const DepthwiseConv& w, const Settings& settings) {
  Reading out;
  out.obstacle = obstacle(w, false);
  if (w.map.dims.empty() || site.body == nullptr || w.kept < 2) return out;
  out.along_channels = goes_along_channels(w);
  if (!out.along_channels && !obstacle(w, true)) out.line = along_lines(site, w);
  const std::span<const ir::Dim> dims(w.map.dims);
  kernels::conv::ConvSizes s;
  s.outputs = product(dims.first(w.kept - 1), site);
  s.groups = site.usual(dims[w.kept - 1]).value_or(1);
  s.n = 1;
  s.k = static_cast<int64_t>(product(dims.subspan(w.kept), site));
  s.image = product(w.a.dims, site);
  out.channels = kernels::depthwise::cost_of_channels(s, !out.along_channels, cpu_of(settings));
  if (!out.line) return out;
  set_line(w, site.body_operand(site.body->stores[0].operand).strides, s);
  out.lines = kernels::depthwise::cost_of_lines(s, *out.line, cpu_of(settings));
  return out;
}

const Reading& reading(const Site& site, const DepthwiseConv& w, const Settings& settings) {
  return site.reading.of<Reading>([&] { return read(site, w, settings); });
}

}  // namespace

void depthwise_conv_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto w = depthwise_of(site);
  if (w == nullptr) return;
  const Reading& r = reading(site, *w, settings);
  Offer offer{.implementation = "depthwise_conv", .cost = r.channels, .wishes = {channels_innermost, contiguous_rows, own_memory}};
  if (!r.obstacle) {
    offer.emit = [w, body = site.body] { return emit_step("depthwise_conv", *w, *body); };
  } else if (!r.line) {
    return out.refusals.push_back({"depthwise_conv", Obstacle::types, *r.obstacle});
  }
  out.offers.push_back(std::move(offer));  // where lines could do, copies into another order of axes may too
}

void depthwise_lines_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto w = depthwise_of(site);
  if (w == nullptr || !reading(site, *w, settings).line) return;
  out.offers.push_back({.implementation = "depthwise_lines", .cost = reading(site, *w, settings).lines, .wishes = {own_memory}, .emit = [w, body = site.body] {
                          return emit_step("depthwise_lines", *w, *body);
                        }});
}

}  // namespace ingot::backend::cpu
