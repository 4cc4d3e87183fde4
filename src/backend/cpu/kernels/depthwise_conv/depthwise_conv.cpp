// Offers depthwise convolutions with vectors along the channels (depthwise_conv), or along lines of the image (depthwise_lines).
#include <algorithm>
#include <functional>
#include <numeric>

#include "backend/cpu/compile/along_lines.h"
#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"
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

// True if copies of the image and the result into channels last are faster than vectors along lines: with a stride, lines are copied too, element by element. Few channels fill no vector,
// lines without others below them are copied once, and a large image is copied through slow memory. (Measured on an EPYC: 1.2 to 2.6 times, 0.9 to 1.1 where this is false.)
bool prefers_channels(const Site& site, const DepthwiseConv& w) {
  constexpr int64_t vector = 16, most_elements = 1 << 20;
  const ir::Dims& steps = site.body_operand(site.body->stores[0].operand).strides;
  size_t x = w.kept;
  while (x > 0 && (w.map.dims[x - 1] == ir::Dim(1) || !(steps[x - 1] == ir::Dim(1)))) --x;
  const auto window = [&](const ir::AffineMap::Axis& axis) { return axis.terms.size() > 1; };
  const bool strided = std::any_of(w.map.axes.begin(), w.map.axes.end(), [&](const ir::AffineMap::Axis& axis) {
    return std::any_of(axis.terms.begin(), axis.terms.end(), [&](const ir::AffineMap::Term& t) { return t.axis + 1 == x && t.coefficient > 1; });
  });
  const ir::Dim image = std::accumulate(w.a.dims.begin(), w.a.dims.end(), ir::Dim(1), std::multiplies<>());
  return strided && std::count_if(w.map.axes.begin(), w.map.axes.end(), window) > 1 && w.map.dims[w.kept - 1].constant().value_or(vector) >= vector &&
         image.constant().value_or(0) <= most_elements;
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

// True if vectors go along lines: then channels make no offer.
bool goes_along_lines(const Site& site, const DepthwiseConv& w) {
  constexpr int64_t shortest_line = 12;  // outputs: for shorter lines copies into another order cost less
  const auto length = along_lines(site, w);
  return length && *length >= shortest_line && !goes_along_channels(w) && !obstacle(w, true) && !prefers_channels(site, w);
}

}  // namespace

void depthwise_conv_offers(const Site& site, const Settings&, Offers& out) {
  const auto w = depthwise_of(site);
  if (w == nullptr || goes_along_lines(site, *w)) return;
  if (auto reason = obstacle(*w, false)) return out.refusals.push_back({"depthwise_conv", Obstacle::types, std::move(*reason)});
  out.offers.push_back({.implementation = "depthwise_conv", .wishes = {channels_innermost, contiguous_rows, own_memory}, .emit = [w, body = site.body] {
                          return emit_step("depthwise_conv", *w, *body);
                        }});
}

void depthwise_lines_offers(const Site& site, const Settings&, Offers& out) {
  const auto w = depthwise_of(site);
  if (w == nullptr || !goes_along_lines(site, *w)) return;
  out.offers.push_back({.implementation = "depthwise_lines", .wishes = {own_memory}, .emit = [w, body = site.body] { return emit_step("depthwise_lines", *w, *body); }});
}

}  // namespace ingot::backend::cpu
