#include <algorithm>
#include <set>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/attention/attention_text.h"
#include "backend/cuda/kernels/attention/run/attention_args.h"
#include "backend/cuda/kernels/attention/run/attention_launches.h"
#include "backend/cuda/kernels/known_code.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::backend::cuda {

namespace {

std::optional<std::string> obstacle(const Attention& a, const Target& target) {
  auto fits = [](const ir::Dim& d) { return d.is_constant() && kernels::attention_cuda_head(d.value()); };
  if (target.architecture < 80) return "these matrix instructions need sm_80";
  if (a.type != ir::DType::f16 && a.type != ir::DType::bf16) return "for float16 and bfloat16";
  if (!fits(a.d) || !fits(a.e)) return "heads have 8 to 128 elements, a multiple of 8, or 160, 192 or 256";
  return std::nullopt;
}

// Adds the code to a step: each variant is a unit. If all sizes are known, those that no launch of these sizes and addresses uses are left out.
void add_code(EmittedStep& step, const EmittedAttention& code, const Site& site, const Target& target) {
  kernels::AttentionCudaArgs args = kernels::parse_attention_cuda(step.constants);
  KnownCall known;
  bool is_known = known.add(step.sizes);
  for (size_t k = 0; is_known && k < site.operands.size(); ++k) is_known = known.add(site.operands[k].layout, args.operands[k].dtype);
  std::set<std::string> used;
  auto note = [&](int multiprocessors, bool tiles) { add_kernels(kernels::attention_cuda_launches(known.call(&args), {multiprocessors, tiles}), site, used); };
  if (is_known && target.architecture == 90) {
    for (int multiprocessors : hoppers_multiprocessors) note(multiprocessors, true);
  } else if (is_known) {
    for (int multiprocessors : {1, 1 << 20}) {
      for (bool tiles : {false, true}) note(multiprocessors, tiles);  // Hopper runs PTX for older GPUs
    }
  }
  if (is_known) {
    // Numbers of multiprocessors that no such GPU has get the variant that there is.
    const uint8_t printed = static_cast<uint8_t>((used.contains(args.name + "_0") ? 1 : 0) | (used.contains(args.name + "_1") ? 2 : 0));
    if (printed != 0) args.printed = printed;
    step.constants = kernels::serialise(args);
  }
  for (size_t k = 0; k < code.printed.kernels.size(); ++k) {
    CodeUnit unit = code.printed.unit(code.name, ParametersOf::step, k);
    if (!is_known || used.contains(unit.name)) step.code.push_back(std::move(unit));
  }
}

}  // namespace

void attention_offers(const Site& site, const Target& target, const Settings&, Offers& out) {
  const auto* a = std::get_if<Attention>(&site.kernel);
  if (a == nullptr) return;
  // Rows of a head are read in place.
  for (const Role role : kernels::attention_roles) {
    const Operand* o = site.find(role);
    if (o == nullptr || !is_placed(o->layout)) continue;
    const ir::Dim& step = o->layout.strides.back();
    if (!step.is_constant() || step.value() != 1) return out.refusals.push_back({"tensor cores", Obstacle::of(role), "a head's elements are not contiguous"});
  }
  if (site.find(Role::block_table) != nullptr) return out.refusals.push_back({"tensor cores", Obstacle::types, "keys are read in one piece, not by blocks"});
  const bool filled = site.find(Role::filled) != nullptr;
  if (filled && a->causal) return out.refusals.push_back({"tensor cores", Obstacle::types, "causal queries are the first ones"});
  if (auto reason = obstacle(*a, target)) return out.refusals.push_back({"tensor cores", Obstacle::types, std::move(*reason)});
  out.offers.push_back({.implementation = "tensor cores", .emit = [a, filled, &site, &target] {
                          const EmittedAttention code = emit_attention(*a, site.body, site.layouts(), filled);
                          EmittedStep step{"attention", code.arguments, {a->s, a->t, a->d, a->e}};
                          step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
                          add_code(step, code, site, target);
                          return step;
                        }});
}

}  // namespace ingot::backend::cuda
