#include "backend/offer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/tuning.h"
#include "kernels/fourier/run/fourier_args.h"

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

double results_of(const Site& site) {
  if (site.body == nullptr) return 0;
  double results = 1;
  for (const std::vector<ir::Dim>& dims : {site.body->outer, site.body->row}) {
    for (const ir::Dim& d : dims) results *= static_cast<double>(site.usual(d).value_or(1));
  }
  return results;
}

double pass_of(const Site& site, const Machine& machine) { return site.body == nullptr ? 0 : machine.launch + results_of(site) * tuning::pass_bytes / machine.memory; }

void wish_for_merged_rows(std::vector<Wish>& wishes, const Site& site, const Gemm& gemm, double tile_rows, const Machine& machine, double peak) {
  if (gemm.map || gemm.batch_rank == 0 || site.body == nullptr) return;
  const auto rows = static_cast<double>(gemm.a.dims[gemm.batch_rank].constant().value_or(0)), columns = static_cast<double>(site.body->row.back().constant().value_or(0));
  const bool is_known = rows > 0 && columns > 0;
  const double padding = is_known ? std::ceil(rows / tile_rows) * tile_rows / rows - 1 : 0;  // the share of the work that is lost
  const double copied = tuning::copied_times * static_cast<double>(ir::size_of(gemm.type)) / machine.memory;  // an element of A
  if (!is_known || padding * columns / peak > copied) wishes.push_back(merged_rows);
}

bool has(std::span<const Wish> all, const Wish& wish) { return std::find(all.begin(), all.end(), wish) != all.end(); }

bool requires_copy(const Offer& offer) {
  return std::any_of(offer.wishes.begin(), offer.wishes.end(), [](const Wish& w) { return w.required; });
}

bool wishes(const Offer& offer, Role operand, Wish::Axis axis, Wish::Kind kind) {
  return std::any_of(offer.wishes.begin(), offer.wishes.end(), [&](const Wish& w) { return w.operand == operand && w.axis == axis && w.kind == kind; });
}

void offer_plain(const Site& site, std::initializer_list<std::string_view> kernels, std::string_view implementation, Offers& out,
                 std::vector<CodeUnit> (*code)(const Plain&, std::span<const Operand>)) {
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || std::find(kernels.begin(), kernels.end(), p->kernel) == kernels.end()) return;
  out.offers.push_back({.implementation = implementation, .emit = [p, code, &site] {
                          return EmittedStep{
                              std::string(p->kernel), {p->constants.begin(), p->constants.end()}, {}, code == nullptr ? std::vector<CodeUnit>() : code(*p, site.operands)};
                        }});
}

bool refuse_several_axes(const Site& site, std::string_view implementation, Offers& out) {
  const auto* p = std::get_if<Plain>(&site.kernel);
  const bool several = p != nullptr && p->kernel == "fourier" && kernels::parse_fourier(p->constants).axes > 1;
  if (several) out.refusals.push_back({implementation, Obstacle::types, "it transforms along one axis"});
  return several;
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
                          return EmittedStep{"external", serialise(args), std::move(sizes)};
                        }});
}

}  // namespace ingot::backend
