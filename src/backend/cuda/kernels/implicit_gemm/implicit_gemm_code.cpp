#include "backend/cuda/kernels/implicit_gemm/implicit_gemm_code.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_args.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_launches.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::backend::cuda {

using kernels::CudaMachine;
using kernels::ImplicitGemmArgs;
using Forms = CodeUnit::Forms;

namespace {

// The step's operands and sizes as the runtime will pass them, without memory.
class KnownCall {
 public:
  // False if a size or stride is not known.
  bool add(const StridedLayout& x, ir::DType type) {
    auto dims = known_sizes(x.dims), strides = known_sizes(x.strides);
    if (!dims || !strides) return false;
    numbers_.push_back(std::move(*dims));
    numbers_.push_back(std::move(*strides));
    types_.push_back(type);
    return true;
  }
  bool add(const ir::Dims& sizes) {
    auto values = known_sizes(sizes);
    if (values) sizes_ = std::move(*values);
    return values.has_value();
  }
  kernels::Call call(const ImplicitGemmArgs& args) {
    refs_.clear();
    for (size_t i = 0; i < types_.size(); ++i) {
      const auto &dims = numbers_[2 * i], &strides = numbers_[2 * i + 1];
      refs_.push_back({nullptr, types_[i], static_cast<int>(dims.size()), dims.data(), strides.data()});
    }
    return {.operands = refs_, .sizes = sizes_, .constants = &args};
  }

 private:
  std::vector<std::vector<int64_t>> numbers_;  // dims and strides of each operand
  std::vector<ir::DType> types_;
  std::vector<int64_t> sizes_;
  std::vector<kernels::TensorRef> refs_;
};

bool is_of_tiles(std::string_view suffix) { return suffix.size() > 1 && suffix[0] == 't' && suffix[1] >= '0' && suffix[1] <= '9'; }

// Small kernels share a unit.
std::string unit_of(std::string_view suffix) {
  for (std::string_view small : {"finish", "row"}) {
    if (suffix == small || suffix == "any_" + std::string(small)) return std::string(small);
  }
  return std::string(suffix);
}

// Which kernels launches use, by suffix: as machine code for the target, and as PTX for later GPUs, which have no large tiles.
class Used {
 public:
  Used(const ImplicitGemmArgs& args, KnownCall& known, bool timed) : args_(args), call_(known.call(args)), timed_(timed) {
    // Hopper's GPUs have these numbers of multiprocessors. Others take the best of these tiles.
    for (int multiprocessors : {78, 114, 132}) note({multiprocessors, true}, machine_code_);
    constexpr int few = 1, many = 1 << 20;  // the tiles of single warps are chosen by their number alone
    for (int multiprocessors : {few, many}) note({multiprocessors, false}, ptx_);
    for (std::set<std::string>* all : {&machine_code_, &ptx_}) complete(*all);
  }
  std::optional<Forms> forms(const std::string& suffix) const {
    const bool ptx = ptx_.contains(suffix), code = machine_code_.contains(suffix);
    if (!ptx && !code) return std::nullopt;
    return ptx && code ? Forms::both : code ? Forms::machine_code : Forms::ptx;
  }
  uint16_t tiles() const {
    uint16_t out = 0;
    for (const std::string& k : machine_code_) {
      if (is_of_tiles(k)) out |= static_cast<uint16_t>(1u << std::stoi(k.substr(1)));
    }
    return out == 0 ? ImplicitGemmArgs::all_tiles : out;
  }

 private:
  void note(const CudaMachine& machine, std::set<std::string>& into) {
    const kernels::CudaLaunches launches = kernels::implicit_gemm_cuda_launches(call_, machine);
    auto add = [&](const std::vector<kernels::CudaLaunch>& list) {
      for (const kernels::CudaLaunch& l : list) into.insert(l.kernel.substr(args_.name.size() + 1));
    };
    add(launches.list);
    add(launches.any);
    for (size_t k = 0; timed_ && machine.timed == nullptr && k < launches.choices.size(); ++k) {
      const std::map<std::string, std::string, std::less<>> wanted{{launches.problem, launches.choices[k]}};
      note({machine.multiprocessors, machine.tiles, &wanted}, into);
    }
  }

  // Adds what other numbers of multiprocessors use besides: both tiles of single warps, and the sum of parts of K.
  static void complete(std::set<std::string>& all) {
    auto has = [&](auto&& is) { return std::any_of(all.begin(), all.end(), is); };
    if (has([](const std::string& k) { return k == "0" || k == "1"; })) all.insert({"0", "1"});
    if (has([](const std::string& k) { return unit_of(k) != "row" && k != "brick" && !k.starts_with("patch_"); })) all.insert({"finish", "any_finish"});
  }

  const ImplicitGemmArgs& args_;
  kernels::Call call_;
  bool timed_;
  std::set<std::string> machine_code_, ptx_;
};

}  // namespace

EmittedStep split_code(EmittedStep step, const Gemm& g, const std::vector<StridedLayout>& operands, bool timed) {
  constexpr std::string_view begin = "extern \"C\" __global__";
  ImplicitGemmArgs args = kernels::parse_implicit_gemm_cuda(step.constants);
  const CodeUnit whole = std::move(step.code.at(0));
  step.code.clear();

  KnownCall known;
  bool is_known = known.add(step.sizes) && !args.has_prologue() && known.add(g.a, args.type);
  for (size_t i = 0; is_known && i < g.b.size(); ++i) is_known = known.add(g.b[i], args.b_type);
  for (size_t i = 0; is_known && i < operands.size(); ++i) is_known = known.add(operands[i], args.operands[i].dtype);
  std::optional<Used> used;
  if (is_known) {
    used.emplace(args, known, timed);
    args.tiles &= used->tiles();
    step.constants = kernels::serialise(args);
  }

  size_t at = whole.text.find(begin);
  const std::string common = whole.text.substr(0, at);
  for (const std::string& kernel : whole.kernels) {
    const size_t next = std::min(whole.text.find(begin, at + 1), whole.text.size());
    const std::string text = whole.text.substr(at, next - at), suffix = kernel.substr(args.name.size() + 1), name = args.name + "_" + unit_of(suffix);
    at = next;
    std::optional<Forms> forms = is_of_tiles(suffix) ? Forms::machine_code : Forms::both;
    if (used) forms = used->forms(suffix);
    if (!forms) continue;
    auto unit = std::find_if(step.code.begin(), step.code.end(), [&](const CodeUnit& u) { return u.name == name; });
    if (unit == step.code.end()) {
      unit = step.code.insert(unit, CodeUnit{name, common, {}, whole.libraries});
      unit->forms = *forms;
    }
    unit->text += text;
    unit->kernels.push_back(kernel);
    if (unit->forms != *forms) unit->forms = Forms::both;
  }
  return step;
}

}  // namespace ingot::backend::cuda
