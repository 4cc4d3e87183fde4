#include "backend/offer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ingot::backend {

std::optional<std::vector<int64_t>> map_steps(const ir::AffineMap& map, std::vector<ir::Dim>& sizes) {
  std::vector<int64_t> steps(map.axes.size() * map.dims.size());
  sizes.insert(sizes.end(), map.dims.begin(), map.dims.end());
  for (size_t j = 0; j < map.axes.size(); ++j) {
    for (const ir::AffineMap::Term& t : map.axes[j].terms) {
      if (t.coefficient < 0 || t.coefficient > INT32_MAX) return std::nullopt;
      steps[j * map.dims.size() + t.axis] = t.coefficient;
    }
    sizes.push_back(map.axes[j].offset);
  }
  return steps;
}

std::optional<int64_t> Site::usual(const ir::Dim& size) const {
  if (size.is_constant() || symbols.empty()) return size.constant();
  std::vector<int64_t> values;
  for (const ir::Symbol& s : symbols) values.push_back(s.opt);
  return size.evaluate(values);
}

std::optional<int64_t> Site::largest(const ir::Dim& size) const {
  if (size.is_constant() || symbols.empty()) return size.constant();
  return size.range(symbols).max;
}

std::string_view name_of(const Site& site) {
  struct Name {
    std::string_view operator()(const Fused&) const { return "fused"; }
    std::string_view operator()(const Gemm&) const { return "gemm"; }
    std::string_view operator()(const DepthwiseConv&) const { return "depthwise_conv"; }
    std::string_view operator()(const Attention&) const { return "attention"; }
    std::string_view operator()(const Plain& p) const { return p.kernel; }
    std::string_view operator()(const External&) const { return "external"; }
  };
  return std::visit(Name{}, site.kernel);
}

bool are_aligned(const Site& site, std::span<const size_t> operands) {
  return std::all_of(operands.begin(), operands.end(), [&](size_t k) { return k < site.aligned.size() && site.aligned[k]; });
}

double padding_of(const Gemm& gemm, double tile_rows) {
  if (gemm.map || gemm.batch_rank == 0) return 0;
  const auto rows = static_cast<double>(gemm.a.dims[gemm.batch_rank].constant().value_or(0));
  return rows == 0 ? std::numeric_limits<double>::infinity() : std::ceil(rows / tile_rows) * tile_rows / rows - 1;
}

bool wishes(const Offer& offer, Wish::Operand operand, Wish::Axis axis, Wish::Kind kind) {
  return std::any_of(offer.wishes.begin(), offer.wishes.end(), [&](const Wish& w) { return w.operand == operand && w.axis == axis && w.kind == kind; });
}

void offer_plain(const Site& site, std::initializer_list<std::string_view> kernels, std::string_view implementation, Offers& out, std::vector<CodeUnit> (*code)(const Plain&)) {
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || std::find(kernels.begin(), kernels.end(), p->kernel) == kernels.end()) return;
  out.offers.push_back({.implementation = implementation, .emit = [p, code] {
                          return EmittedStep{std::string(p->kernel), {p->constants.begin(), p->constants.end()}, {}, code == nullptr ? std::vector<CodeUnit>() : code(*p)};
                        }});
}

kernels::ExternalArgs external_args(const External& site, std::vector<ir::Dim>& sizes) {
  using Kind = kernels::ExternalNumber::Kind;
  kernels::ExternalArgs out;
  out.name = site.kernel->name;
  out.inputs = site.inputs;
  out.results = site.results;
  for (int64_t operand : site.kernel->written) out.written.push_back(static_cast<uint32_t>(operand));
  for (const ir::Scalar& n : site.kernel->numbers) {
    if (const auto* size = std::get_if<ir::Dim>(&n.value)) {
      out.numbers.push_back({Kind::size, static_cast<int64_t>(sizes.size()), 0});
      sizes.push_back(*size);
    } else if (n.is_float()) {
      out.numbers.push_back({Kind::real, 0, n.to_double()});
    } else {
      out.numbers.push_back({n.is_bool() ? Kind::boolean : Kind::integer, n.to_int(), 0});
    }
  }
  return out;
}

void offer_host_external(const Site& site, Offers& out) {
  const auto* external = std::get_if<External>(&site.kernel);
  if (external == nullptr) return;
  if (!external->kernel->cpu) {
    out.refusals.push_back({"host function", Obstacle::types, "kernel " + external->kernel->name + " is registered without a function for the CPU"});
    return;
  }
  out.offers.push_back({.implementation = "host function", .emit = [external] {
                          std::vector<ir::Dim> sizes;
                          kernels::ExternalArgs args = external_args(*external, sizes);
                          args.host = *external->kernel->cpu;
                          return EmittedStep{"external", serialise(args), std::move(sizes), {}, external->elementwise};
                        }});
}

}  // namespace ingot::backend
