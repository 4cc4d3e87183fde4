#include "backend/site.h"

namespace ingot::backend {

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

}  // namespace ingot::backend
