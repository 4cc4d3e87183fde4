#include "backend/cuda/kernels/gemm/gemm_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "backend/cuda/kernels/concurrent/part.h"
#include "backend/cuda/kernels/gemm/epilogue_text.h"
#include "backend/cuda/kernels/known_code.h"
#include "backend/cuda/run/hardware.h"

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

// The step without its code.
EmittedStep step_of(const GemmSite& site, const GemmText& printed) {
  EmittedStep step{printed.args.implementations[0].kernel, kernels::serialise(printed.args), {1, site.columns(), 1}};
  for (size_t i = 0; i < site.extents.size(); ++i) step.sizes[i < site.map.m_rank ? 0 : 2] *= site.extents[i];
  step.sizes.insert(step.sizes.end(), site.numbers.begin(), site.numbers.end());
  step.sizes.insert(step.sizes.end(), printed.sizes.begin(), printed.sizes.end());
  return step;
}

EmittedStep as_rows(EmittedStep step, const GemmText& printed) {
  GemmArgs args = printed.args;
  args.name = name_of(args.name, ParametersOf::rows);
  step.constants = kernels::serialise(args);
  return step;
}

// A unit for each kernel that is used, by suffix.
void add_units(EmittedStep& step, const GemmText& printed, ParametersOf of, const std::function<bool(const std::string& suffix)>& is_used) {
  for (size_t k = 0; k < printed.printed.kernels.size(); ++k) {
    if (is_used(printed.printed.kernels[k].suffix)) step.code.push_back(printed.printed.unit(printed.args.name, of, k));
  }
}

// A step that is a part of others, with these large tiles alone.
EmittedStep with_large_tiles(const EmittedStep& part, const std::set<std::string>& kernels) {
  EmittedStep out = part;
  GemmArgs args = kernels::parse_gemm_cuda(part.constants);
  std::set<std::string> suffixes;
  for (const std::string& k : kernels) suffixes.insert(suffix_of(k, args));
  keep_tiles(args, suffixes);
  out.constants = kernels::serialise(args);
  std::erase_if(out.code, [&](const CodeUnit& unit) {
    const std::string suffix = suffix_of(unit.name, args);
    return tile_of(suffix) && !suffixes.contains(suffix);
  });
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
      // The tiles of single warps are chosen by their number alone.
      for (int multiprocessors : {1, hardware::max_multiprocessors}) note({multiprocessors, false});
    }
    complete();
  }
  bool is_possible() const { return possible_; }
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
  if (out && site.gemm.row_ends != nullptr) out = known.add(site.gemm.row_ends->layout, site.gemm.row_ends->type);
  for (size_t i = 0; out && i < question.body->operands.size(); ++i) out = known.add(question.body_operand(i), args.operands[i].dtype);
  return out;
}

// True if sizes or strides are open, so that a call is certainly not known.
bool has_open_sizes(const GemmSite& site) {
  auto is_open = [](const ir::Dims& dims) { return !std::all_of(dims.begin(), dims.end(), [](const ir::Dim& d) { return d.is_constant(); }); };
  auto is_open_layout = [&](const StridedLayout& x) { return is_open(x.dims) || is_open(x.strides); };
  return site.prologue || is_open(site.numbers) || is_open_layout(site.gemm.a) || std::any_of(site.gemm.b.begin(), site.gemm.b.end(), is_open_layout) ||
         std::any_of(site.operands.begin(), site.operands.end(), is_open_layout);
}

// Those that may compute the site at some sizes.
std::vector<const GemmCompiler*> all_of(const GemmSite& site) {
  std::vector<const GemmCompiler*> out = gemm_compilers();
  std::erase_if(out, [&](const GemmCompiler* c) { return !c->suits(site.gemm, site.hopper) || !c->may(site); });
  return out;
}

}  // namespace

EmittedStep whole_gemm(const GemmSite& site, std::span<const GemmCompiler* const> implementations) {
  const auto text = std::make_shared<const GemmText>(print_gemm(site, implementations));
  const std::string& name = text->args.name;
  EmittedStep step = step_of(site, *text);
  auto rows = [text, bare = step] {
    EmittedStep out = as_rows(bare, *text);
    out.code.push_back(text->printed.unit(text->args.name, ParametersOf::rows));
    return out;
  };
  step.code.push_back(text->printed.unit(name, ParametersOf::step));
  step.as_part = as_part({name, std::move(rows)});
  return step;
}

EmittedStep whole_gemm(const GemmSite& site) { return whole_gemm(site, all_of(site)); }

std::optional<EmittedStep> gemm_step(const GemmCompiler& c, const GemmSite& site, const Site& question, bool timed, OpenGemm& of_all) {
  auto for_open_sizes = [&] {
    if (!of_all) of_all = std::make_shared<const GemmText>(print_gemm(site, all_of(site)));
    auto any = [](const std::string&) { return true; };
    EmittedStep step = step_of(site, *of_all);
    step.kernel = c.run.kernel;
    auto rows = [text = of_all, bare = step, any] {
      EmittedStep out = as_rows(bare, *text);
      add_units(out, *text, ParametersOf::rows, any);
      return out;
    };
    add_units(step, *of_all, ParametersOf::step, any);
    step.as_part = as_part({of_all->args.name, std::move(rows)});
    return step;
  };
  if (has_open_sizes(site)) return for_open_sizes();
  const GemmCompiler* own[] = {&c};
  const auto text = std::make_shared<const GemmText>(print_gemm(site, own));
  EmittedStep step = step_of(site, *text);
  KnownCall known;
  if (is_known(site, question, step, text->args, known)) {
    const auto loaded = kernels::load_gemm_cuda(step.constants, known.operands().size(), step.sizes.size());
    const kernels::Call call = known.call(loaded.get());
    const Used used(text->args, call, question, site.hopper, timed);
    if (!used.is_possible()) return std::nullopt;
    // With others it may launch other tiles than alone.
    const bool has_tiles = c.run.kernel == tiles_kernel;
    auto rows = [text, bare = step, kernels = used.kernels(), has_tiles] {
      EmittedStep out = as_rows(bare, *text);
      add_units(out, *text, ParametersOf::rows, [&](const std::string& suffix) { return kernels.contains(suffix) && !(has_tiles && tile_of(suffix)); });
      if (has_tiles) add_units(out, *text, ParametersOf::rows, [](const std::string& suffix) { return tile_of(suffix).has_value(); });
      return out;
    };
    GemmArgs args = text->args;
    keep_tiles(args, used.kernels());
    step.constants = kernels::serialise(args);
    add_units(step, *text, ParametersOf::step, [&](const std::string& suffix) { return used.kernels().contains(suffix); });
    step.as_part = as_part({args.name, std::move(rows), has_tiles ? with_large_tiles : nullptr});
    return step;
  }
  return for_open_sizes();
}

}  // namespace ingot::backend::cuda
