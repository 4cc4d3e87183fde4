#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/attention/attention_text.h"
#include "backend/cuda/kernels/attention/run/attention_args.h"

namespace ingot::backend::cuda {

namespace {

std::optional<std::string> obstacle(const Attention& a, const Target& target) {
  auto fits = [](const ir::Dim& d) { return d.is_constant() && kernels::attention_cuda_head(d.value()); };
  if (target.architecture < 80) return "these matrix instructions need sm_80";
  if (a.type != ir::DType::f16 && a.type != ir::DType::bf16) return "for float16 and bfloat16";
  if (!fits(a.d) || !fits(a.e)) return "heads have 8 to 128 elements, a multiple of 8, or 160, 192 or 256";
  return std::nullopt;
}

}  // namespace

void attention_offers(const Site& site, const Target& target, const Settings&, Offers& out) {
  const auto* a = std::get_if<Attention>(&site.kernel);
  if (a == nullptr) return;
  // Rows of a head are read in place.
  for (size_t i = 0; i < 3 && i < site.operands.size(); ++i) {
    const ir::Dim& step = site.operands[i].strides.back();
    if (!step.is_constant() || step.value() != 1)
      return out.refusals.push_back({"tensor cores", static_cast<Obstacle>(static_cast<size_t>(Obstacle::a) + i), "a head's elements are not contiguous"});
  }
  if (auto reason = obstacle(*a, target)) return out.refusals.push_back({"tensor cores", Obstacle::types, std::move(*reason)});
  out.offers.push_back({.implementation = "tensor cores", .emit = [a, &site] {
                          EmittedAttention code = emit_attention(*a, site.body, site.operands);
                          EmittedStep step{"attention", std::move(code.arguments), {a->s, a->t, a->d, a->e}};
                          step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
                          step.code.push_back({std::move(code.name), std::move(code.text), std::move(code.kernels), {matrix_instructions, matrix_text, attention_text}});
                          return step;
                        }});
}

}  // namespace ingot::backend::cuda
