#include "backend/cuda/kernels/gemm/gemm_code.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/kernels/gemm/gemm_text.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/kernels/gemm/run/gemm_launches.h"
#include "backend/cuda/kernels/known_code.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::backend::cuda {

using kernels::CudaMachine;
using kernels::GemmArgs;

namespace {

bool is_of_tiles(std::string_view suffix) { return suffix.size() > 1 && suffix[0] == 't' && suffix[1] >= '0' && suffix[1] <= '9'; }

// What one kernel uses. A text is read again for each call of NVRTC, and no two are read at the same time.
std::vector<CodeUnit::Library> libraries_of(std::string_view suffix, const GemmArgs& args) {
  if (suffix.starts_with("any_")) suffix.remove_prefix(4);
  const bool of_rows = suffix.starts_with("row"), finish = suffix == "finish";
  std::vector<CodeUnit::Library> out = of_rows || finish ? matrix_libraries(args.type, {}) : matrix_libraries(args.type, {args.b_along_k});
  out.push_back(kernels::gemm_cuda_text);
  if (finish) return out;
  out.push_back(of_rows                       ? kernels::gemv_cuda_text
                : is_of_tiles(suffix)         ? kernels::tiles_cuda_text
                : suffix.starts_with("patch") ? kernels::im2col_2d_cuda_text
                : suffix.starts_with("brick") ? kernels::im2col_3d_cuda_text
                                              : kernels::implicit_cuda_text);
  return out;
}

// Cuts a product's unit into its kernels.
std::vector<CodeUnit> kernels_of(const EmittedStep& whole, const GemmArgs& args, const std::function<bool(const std::string& suffix)>& is_used) {
  auto suffix_of = [&](const std::string& kernel) { return kernel.substr(args.name.size() + 1); };
  std::vector<CodeUnit> out = cut(whole.code.at(0), [&](const std::string& kernel) { return is_used(suffix_of(kernel)); });
  for (CodeUnit& unit : out) unit.libraries = libraries_of(suffix_of(unit.name), args);
  return out;
}

// See GemmArgs::tiles. `kernels`: suffixes.
uint16_t tiles_of(const std::set<std::string>& kernels) {
  uint16_t out = 0;
  for (const std::string& k : kernels) {
    if (is_of_tiles(k)) out |= static_cast<uint16_t>(1u << std::stoi(k.substr(1)));
  }
  return out == 0 ? GemmArgs::all_tiles : out;
}

// Which kernels launches use, by suffix.
class Used {
 public:
  Used(const GemmArgs& args, KnownCall& known, const Site& site, bool timed) : args_(args), site_(site), call_(known.call(&args)), timed_(timed) {
    if (args.tiles != 0) {
      // GPUs with other numbers take the best of these tiles.
      for (int multiprocessors : hoppers_multiprocessors) note({multiprocessors, true});
    } else {
      constexpr int few = 1, many = 1 << 20;  // the tiles of single warps are chosen by their number alone
      for (int multiprocessors : {few, many}) note({multiprocessors, false});
    }
    complete();
  }
  bool contains(const std::string& suffix) const { return kernels_.contains(suffix); }
  uint16_t tiles() const { return tiles_of(kernels_); }

 private:
  void note(const CudaMachine& machine) {
    const kernels::CudaLaunches launches = kernels::gemm_cuda_launches(call_, machine);
    std::set<std::string> names;
    add_kernels(launches, site_, names);
    for (const std::string& name : names) kernels_.insert(name.substr(args_.name.size() + 1));
    for (size_t k = 0; timed_ && machine.timed == nullptr && k < launches.choices.size(); ++k) {
      const std::map<std::string, std::string, std::less<>> wanted{{launches.problem, launches.choices[k]}};
      note({machine.multiprocessors, machine.tiles, &wanted});
    }
  }

  // Adds what other numbers of multiprocessors use besides: both tiles of single warps, and the sum of parts of K.
  void complete() {
    auto has = [&](auto&& is) { return std::any_of(kernels_.begin(), kernels_.end(), is); };
    if (has([](const std::string& k) { return k == "0" || k == "1"; })) kernels_.insert({"0", "1"});
    if (has([](const std::string& k) { return is_of_tiles(k) || k == "1" || k == "one_1"; })) kernels_.insert("finish");
    if (kernels_.contains("any_1")) kernels_.insert("any_finish");
  }

  const GemmArgs& args_;
  const Site& site_;
  kernels::Call call_;
  bool timed_;
  std::set<std::string> kernels_;
};

}  // namespace

std::vector<CodeUnit::Library> gemm_libraries(ir::DType type, bool b_along_k) {
  std::vector<CodeUnit::Library> out = matrix_libraries(type, {b_along_k});
  out.insert(out.end(),
             {kernels::gemm_cuda_text, kernels::implicit_cuda_text, kernels::tiles_cuda_text, kernels::im2col_2d_cuda_text, kernels::im2col_3d_cuda_text, kernels::gemv_cuda_text});
  return out;
}

EmittedStep split_code(EmittedStep step, const Site& site, bool timed) {
  const std::shared_ptr<const Gemm> gemm = gemm_of(site);
  const Gemm& g = *gemm;
  GemmArgs args = kernels::parse_gemm_cuda(step.constants);

  KnownCall known;
  bool is_known = known.add(step.sizes) && !args.has_prologue() && known.add(g.a, args.type);
  for (size_t i = 0; is_known && i < g.b.size(); ++i) is_known = known.add(g.b[i], args.b_type);
  for (size_t i = 0; is_known && i < site.body->operands.size(); ++i) is_known = known.add(site.body_operand(i), args.operands[i].dtype);
  std::optional<Used> used;
  if (is_known) {
    used.emplace(args, known, site, timed);
    if (args.tiles != 0) step.as_part = std::make_shared<EmittedStep>(step);
    args.tiles &= used->tiles();
    step.constants = kernels::serialise(args);
  }

  step.code = kernels_of(step, args, [&](const std::string& suffix) { return !used || used->contains(suffix); });
  return step;
}

EmittedStep with_large_kernels(const EmittedStep& step, const std::set<std::string>& kernels) {
  EmittedStep out = step;
  GemmArgs args = kernels::parse_gemm_cuda(step.as_part->constants);
  auto suffix_of = [&](const std::string& kernel) { return kernel.substr(args.name.size() + 1); };
  std::set<std::string> suffixes;
  for (const std::string& k : kernels) suffixes.insert(suffix_of(k));
  args.tiles &= tiles_of(suffixes);
  out.constants = kernels::serialise(args);
  std::erase_if(out.code, [&](const CodeUnit& unit) { return is_of_tiles(suffix_of(unit.name)); });
  for (CodeUnit& unit : kernels_of(*step.as_part, args, [&](const std::string& suffix) { return is_of_tiles(suffix) && suffixes.contains(suffix); }))
    out.code.push_back(std::move(unit));
  return out;
}

}  // namespace ingot::backend::cuda
