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
    std::string_view operator()(const GemmAttributes&) const { return "gemm"; }
    std::string_view operator()(const DepthwiseAttributes&) const { return "depthwise_conv"; }
    std::string_view operator()(const Attention&) const { return "attention"; }
    std::string_view operator()(const Plain& p) const { return p.kernel; }
    std::string_view operator()(const External&) const { return "external"; }
    std::string_view operator()(const Concurrent&) const { return "concurrent"; }
  };
  return std::visit(Name{}, site.kernel);
}

std::span<const Operand> Site::of(Role role) const {
  const auto is_of = [&](const Operand& o) { return o.role == role; };
  const auto first = std::find_if(operands.begin(), operands.end(), is_of);
  return {first, std::find_if_not(first, operands.end(), is_of)};
}

const Operand* Site::find(Role role) const {
  const auto all = of(role);
  return all.empty() ? nullptr : all.data();
}

const StridedLayout& Site::body_operand(size_t k) const {
  const auto first = std::find_if(operands.begin(), operands.end(), [](const Operand& o) { return o.role == Role::body || o.role == Role::output; });
  return first[static_cast<std::ptrdiff_t>(k)].layout;
}

std::vector<StridedLayout> Site::body_layouts() const {
  std::vector<StridedLayout> out;
  for (const Operand& o : operands) {
    if (o.role == Role::body || o.role == Role::output) out.push_back(o.layout);
  }
  return out;
}

std::vector<StridedLayout> Site::layouts() const {
  std::vector<StridedLayout> out;
  for (const Operand& o : operands) out.push_back(o.layout);
  return out;
}

std::shared_ptr<const Gemm> gemm_of(const Site& site) {
  const auto* attributes = std::get_if<GemmAttributes>(&site.kernel);
  if (attributes == nullptr) return nullptr;
  auto out = std::make_shared<Gemm>(Gemm{*attributes});
  const Operand* a = site.find(Role::a);
  const std::span<const Operand> b = site.of(Role::b);
  out->a = a != nullptr ? a->layout : attributes->prologue->row;
  for (const Operand& part : b) out->b.push_back(part.layout);
  out->constant = std::all_of(b.begin(), b.end(), [](const Operand& o) { return o.source == Operand::Source::constant; });
  out->encoding = b[0].encoding;
  out->scale = site.find(Role::scale);
  out->zero = site.find(Role::zero);
  out->row_ends = site.find(Role::row_ends);
  return out;
}

std::shared_ptr<const DepthwiseConv> depthwise_of(const Site& site) {
  const auto* attributes = std::get_if<DepthwiseAttributes>(&site.kernel);
  if (attributes == nullptr) return nullptr;
  auto out = std::make_shared<DepthwiseConv>(DepthwiseConv{*attributes});
  out->of_a = site.find(Role::a)->type;
  out->a = site.find(Role::a)->layout;
  out->b = site.find(Role::b)->layout;
  return out;
}

void add_body(Site& site, const std::vector<StridedLayout>& layouts) {
  for (size_t k = 0; k < layouts.size(); ++k) {
    const bool stored = std::any_of(site.body->stores.begin(), site.body->stores.end(), [&](const Store& s) { return s.operand == k; });
    site.operands.push_back({stored ? Role::output : Role::body, site.body->operands[k], layouts[k]});
  }
}

Site site_of(Gemm gemm, const FusedBody* body, const std::vector<StridedLayout>& body_layouts) {
  Site out{static_cast<const GemmAttributes&>(gemm), body};
  out.operands.push_back({Role::a, gemm.type, std::move(gemm.a)});
  for (StridedLayout& b : gemm.b)
    out.operands.push_back(
        {Role::b, gemm.encoding ? gemm.encoding->storage : gemm.type, std::move(b), gemm.encoding, gemm.constant ? Operand::Source::constant : Operand::Source::computed});
  for (const Operand* o : {gemm.scale, gemm.zero, gemm.row_ends}) {
    if (o != nullptr) out.operands.push_back(*o);
  }
  add_body(out, body_layouts);
  return out;
}

Site site_of(DepthwiseConv conv, const FusedBody* body, const std::vector<StridedLayout>& body_layouts) {
  Site out{static_cast<const DepthwiseAttributes&>(conv), body};
  out.operands = {{Role::a, conv.of_a, std::move(conv.a)}, {Role::b, conv.type, std::move(conv.b)}};
  add_body(out, body_layouts);
  return out;
}

bool are_aligned(const Site& site, std::span<const size_t> operands) {
  return std::all_of(operands.begin(), operands.end(), [&](size_t k) { return k < site.operands.size() && site.operands[k].aligned; });
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
