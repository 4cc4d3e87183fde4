#include "backend/cuda/kernels/gemm/gemm_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "backend/cuda/kernels/gemm/epilogue_text.h"
#include "backend/cuda/kernels/known_code.h"

namespace ingot::backend::cuda {

using kernels::CudaMachine;
using kernels::GemmArgs;
using kernels::TilesArgs;

namespace {

constexpr std::string_view tiles_kernel = "gemm_tiles";

// The number of the large tile of a kernel, by its suffix.
std::optional<int> tile_of(std::string_view suffix) {
  if (suffix.size() < 2 || suffix[0] != 't' || suffix[1] < '0' || suffix[1] > '9') return std::nullopt;
  return std::stoi(std::string(suffix.substr(1)));
}
std::string suffix_of(const std::string& kernel, const GemmArgs& args) { return kernel.substr(args.name.size() + 1); }

// Leaves the tiles of these kernels, given by suffix, if there are any.
void keep_tiles(GemmArgs& args, const std::set<std::string>& suffixes) {
  uint16_t used = 0;
  for (const std::string& k : suffixes) {
    if (auto tile = tile_of(k)) used |= static_cast<uint16_t>(1u << *tile);
  }
  for (GemmArgs::Implementation& i : args.implementations) {
    if (i.kernel != tiles_kernel || used == 0) continue;
    TilesArgs own = kernels::parse_tiles_args(i.args, args);
    own.tiles &= used;
    i.args = kernels::serialise(own);
  }
}

EmittedStep step_of(const GemmSite& site, const GemmText& printed) {
  const std::vector<GemmArgs::Implementation>& implementations = printed.args.implementations;
  EmittedStep step{implementations[0].kernel, kernels::serialise(printed.args), {1, site.columns(), 1}};
  for (size_t i = 0; i < site.extents.size(); ++i) step.sizes[i < site.map.m_rank ? 0 : 2] *= site.extents[i];
  step.sizes.insert(step.sizes.end(), site.numbers.begin(), site.numbers.end());
  step.sizes.insert(step.sizes.end(), printed.sizes.begin(), printed.sizes.end());
  CodeUnit& unit = step.code.emplace_back(CodeUnit{printed.args.name, printed.text, {}});
  for (const GemmText::Kernel& k : printed.kernels) {
    unit.kernels.push_back(k.name);
    for (const CodeUnit::Library& library : k.libraries) {
      if (std::find(unit.libraries.begin(), unit.libraries.end(), library) == unit.libraries.end()) unit.libraries.push_back(library);
    }
  }
  return step;
}

// The unit of all kernels as one for each kernel that is used, by name, with the libraries that it uses.
std::vector<CodeUnit> units_of(const CodeUnit& whole, const GemmText& printed, const std::function<bool(const std::string& kernel)>& is_used) {
  std::vector<CodeUnit> out = cut(whole, is_used);
  for (CodeUnit& unit : out)
    unit.libraries = std::find_if(printed.kernels.begin(), printed.kernels.end(), [&](const GemmText::Kernel& k) { return k.name == unit.name; })->libraries;
  return out;
}

// The kernels that launches of known sizes use, by suffix.
class Used {
 public:
  Used(const GemmArgs& args, const kernels::Call& call, const Site& site, bool hopper, bool timed) : args_(args), site_(site), call_(call), timed_(timed) {
    if (hopper) {
      // GPUs with other numbers take the best of these tiles.
      for (int multiprocessors : hoppers_multiprocessors) note({multiprocessors, true});
    } else {
      constexpr int one = 1, more_than_any = 1 << 20;  // the tiles of single warps are chosen by their number alone
      for (int multiprocessors : {one, more_than_any}) note({multiprocessors, false});
    }
    complete();
  }
  bool is_possible() const { return possible_; }
  bool contains(const std::string& suffix) const { return kernels_.contains(suffix); }
  const std::set<std::string>& kernels() const { return kernels_; }

 private:
  void note(const CudaMachine& machine) {
    const kernels::CudaLaunches launches = kernels::gemm_cuda_launches(call_, machine);
    possible_ = possible_ && !std::isinf(launches.nanoseconds);
    std::set<std::string> names;
    add_kernels(launches, site_, names);
    for (const std::string& name : names) kernels_.insert(suffix_of(name, args_));
    for (size_t k = 0; timed_ && machine.timed == nullptr && k < launches.choices.size(); ++k) {
      const std::map<std::string, std::string, std::less<>> wanted{{launches.problem, launches.choices[k]}};
      note({machine.multiprocessors, machine.tiles, &wanted});
    }
  }

  // Adds what other numbers of multiprocessors use besides: both tiles of single warps, and the sum of parts of K.
  void complete() {
    auto has = [&](auto&& is) { return std::any_of(kernels_.begin(), kernels_.end(), is); };
    if (has([](const std::string& k) { return k == "0" || k == "1"; })) kernels_.insert({"0", "1"});
    if (has([](const std::string& k) { return tile_of(k) || k == "1" || k == "one_1"; })) kernels_.insert("finish");
    if (kernels_.contains("any_1")) kernels_.insert("any_finish");
  }

  const GemmArgs& args_;
  const Site& site_;
  const kernels::Call& call_;
  const bool timed_;
  bool possible_ = true;
  std::set<std::string> kernels_;
};

// The step's call, if all of its sizes are known. The operands of a prologue are not asked for: it has kernels for any address.
bool is_known(const GemmSite& site, const Site& question, const EmittedStep& step, const GemmArgs& args, KnownCall& known) {
  bool out = known.add(step.sizes) && !site.prologue && known.add(site.gemm.a, args.type);
  for (size_t i = 0; out && i < site.gemm.b.size(); ++i) out = known.add(site.gemm.b[i], args.b_type);
  if (out && args.experts) out = known.add(site.gemm.row_ends->layout, site.gemm.row_ends->type);
  for (size_t i = 0; out && i < question.body->operands.size(); ++i) out = known.add(question.body_operand(i), args.operands[i].dtype);
  return out;
}

// Those that may compute the site at some sizes.
std::vector<const GemmCompiler*> all_of(const GemmSite& site) {
  std::vector<const GemmCompiler*> out = gemm_compilers();
  std::erase_if(out, [&](const GemmCompiler* c) { return !c->suits(site.gemm) || !c->may(site); });
  return out;
}

}  // namespace

EmittedStep whole_gemm(const GemmSite& site, std::span<const GemmCompiler* const> implementations) { return step_of(site, print_gemm(site, implementations)); }

EmittedStep whole_gemm(const GemmSite& site) { return whole_gemm(site, all_of(site)); }

std::optional<EmittedStep> gemm_step(const GemmCompiler& c, const GemmSite& site, const Site& question, bool timed) {
  const GemmCompiler* own[] = {&c};
  GemmText printed = print_gemm(site, own);
  EmittedStep step = step_of(site, printed);
  KnownCall known;
  if (is_known(site, question, step, printed.args, known)) {
    const auto loaded = kernels::load_gemm_cuda(step.constants, known.operands().size(), step.sizes.size());
    const kernels::Call call = known.call(loaded.get());
    const Used used(printed.args, call, question, site.hopper, timed);
    if (!used.is_possible()) return std::nullopt;
    const CodeUnit whole = std::move(step.code[0]);
    step.code = units_of(whole, printed, [](const std::string&) { return true; });
    if (c.run.kernel == tiles_kernel) step.as_part = std::make_shared<EmittedStep>(step);
    keep_tiles(printed.args, used.kernels());
    step.constants = kernels::serialise(printed.args);
    step.code = units_of(whole, printed, [&](const std::string& kernel) { return used.contains(suffix_of(kernel, printed.args)); });
    return step;
  }
  if (const std::vector<const GemmCompiler*> all = all_of(site); all.size() > 1) {
    printed = print_gemm(site, all);
    step = step_of(site, printed);
    step.kernel = c.run.kernel;
  }
  step.code = units_of(CodeUnit(step.code[0]), printed, [](const std::string&) { return true; });
  return step;
}

EmittedStep with_large_tiles(const EmittedStep& step, const std::set<std::string>& kernels) {
  EmittedStep out = step;
  GemmArgs args = kernels::parse_gemm_cuda(step.as_part->constants);
  std::set<std::string> suffixes;
  for (const std::string& k : kernels) suffixes.insert(suffix_of(k, args));
  keep_tiles(args, suffixes);
  out.constants = kernels::serialise(args);
  std::erase_if(out.code, [&](const CodeUnit& unit) { return tile_of(suffix_of(unit.name, args)).has_value(); });
  for (const CodeUnit& unit : step.as_part->code) {
    const std::string suffix = suffix_of(unit.name, args);
    if (tile_of(suffix) && suffixes.contains(suffix)) out.code.push_back(unit);
  }
  return out;
}

}  // namespace ingot::backend::cuda
