#include "backend/cuda/compile/offers.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>

#include "backend/compiler.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/nvrtc.h"
#include "backend/cuda/compile/prelude.h"
#include "backend/cuda/compile/tuning.h"
#include "base/error.h"
#include "base/own_file.h"

namespace ingot::backend::cuda {

namespace {

void check(const Target& target, const Settings& settings) {
  if (settings.deterministic != Deterministic::batch) return;
  throw Error(
      Code::unsupported,
      fmt::format("deterministic=\"batch\" is not available on {}: the library that multiplies matrices there chooses its order of sums by the number of rows", target.text()))
      .fix("compile for \"cpu\", or with deterministic=\"run\"");
}

Offers offers(const Site& site, const Target& target, const Settings& settings) {
  Offers out;
  site.reading.forget();  // sites change between questions
#define X(name) name##_offers(site, target, settings, out);
#include "backend/cuda/run/kernels.def"
#undef X
  out.pass = pass_of(site, settings.machine);
  return out;
}

// True if the PTX text has this kernel as an entry.
bool has_entry(std::string_view ptx, std::string_view entry) {
  constexpr std::string_view word = ".entry";
  for (size_t at = ptx.find(word); at != std::string_view::npos; at = ptx.find(word, at + 1)) {
    const size_t begin = ptx.find_first_not_of(" \t\r\n", at + word.size());
    if (begin == std::string_view::npos) return false;
    const size_t end = std::min(ptx.find_first_of(" \t\r\n(", begin), ptx.size());
    if (ptx.substr(begin, end - begin) == entry) return true;
  }
  return false;
}

void check_entry(const CodeUnit& unit, std::string_view ptx) {
  const std::string entry = unit.kernels[0].substr(unit.kernels[0].rfind(':') + 1);
  if (has_entry(ptx, entry)) return;
  throw Error(Code::invalid_input, fmt::format("the code of kernel {} has no kernel {}", unit.label, entry))
      .fix(fmt::format("declare it extern \"C\" __global__ void {}(...)", entry));
}

// PTX that the user registered.
DeviceCode taken(const CodeUnit& unit, const Target& target) {
  check_entry(unit, unit.text);
  constexpr std::string_view word = ".target sm_";
  const size_t at = unit.text.find(word);
  const int needed = at == std::string::npos ? 0 : std::atoi(unit.text.c_str() + at + word.size());
  if (needed == 0) throw Error(Code::invalid_input, fmt::format("the PTX of kernel {} names no target", unit.label)).fix("give the whole text that the compiler wrote");
  if (needed > target.architecture) {
    throw Error(Code::invalid_input, fmt::format("the PTX of kernel {} is for sm_{} and later, and the plan for {}", unit.label, needed, target.text()))
        .fix("compile it for an older GPU, or the model for a newer one");
  }
  DeviceCode out{true, needed, unit.kernels, {}};
  for (char c : unit.text) out.image.push_back(static_cast<std::byte>(c));
  out.image.push_back(std::byte{0});
  return out;
}

// A cubin that the user registered: "sm_90 " and its bytes as hexadecimal digits.
DeviceCode taken_cubin(const CodeUnit& unit, const Target& target) {
  constexpr std::string_view word = "sm_";
  const std::string_view text = unit.text;
  const size_t space = std::min(text.find(' '), text.size());
  const int of = text.starts_with(word) ? std::atoi(unit.text.c_str() + word.size()) : 0;
  if (of != target.architecture) {
    throw Error(Code::invalid_input, fmt::format("the code of kernel {} is for {} alone, and the plan for {}", unit.label, text.substr(0, space), target.text()))
        .fix(fmt::format("compile the model for {} where the kernel is registered", target.text()));
  }
  DeviceCode out{false, of, unit.kernels, {}};
  for (size_t at = space + 1; at + 2 <= text.size(); at += 2) {
    uint8_t byte = 0;
    if (std::from_chars(text.data() + at, text.data() + at + 2, byte, 16).ptr != text.data() + at + 2)
      fail(Code::format, "the cubin of kernel {} is not in hexadecimal digits", unit.label);
    out.image.push_back(static_cast<std::byte>(byte));
  }
  return out;
}

// True for texts with matrix instructions. They are long, and use instructions that only their architecture has: on Hopper, later GPUs have no such code.
bool has_matrices(const CodeUnit& unit) { return std::find(unit.libraries.begin(), unit.libraries.end(), &matrix_instructions) != unit.libraries.end(); }

// The NVRTC calls for a target's code.
class Jobs {
 public:
  // `as_ptx`: also makes PTX of ingot's own kernels. `units`: how many there will be.
  Jobs(const Target& target, bool as_ptx, size_t units)
      : target_(target), as_ptx_(as_ptx), together_(units > compile_tuning::min_units_for_large_calls ? compile_tuning::units_of_large_call : compile_tuning::units_of_call) {}

  // A few units per call: each call reads the prelude again, one after another, and the rest of it runs at the same time as other calls. Products of groups of warps take
  // longest, and have a call each.
  void add(const CodeUnit& unit) {
    const bool special = has_matrices(unit);
    if (has_group_products(unit)) return push(Group{}.with(unit).whole(), unit.kernels, special, {}, as_ptx_);
    Group& group = groups_[special];
    group.with(unit);
    if (group.count == (special ? compile_tuning::units_of_call : together_)) flush(special);
  }

  // A user's source is compiled unchanged and alone.
  void add_users(const CodeUnit& unit) {
    users_.emplace_back(code.size() + 1, &unit);
    push(unit.text, unit.kernels, false, unit.label, true);
  }

  std::vector<DeviceCode> run() {
    for (bool special : {false, true}) flush(special);
    if (jobs_.empty()) return {};
    Compiled compiled = compile(jobs_, {0, cache_folder("code")});
    if (!compiled.cache_problem.empty()) say_once(compiled.cache_problem);
    for (size_t k = 0; k < code.size(); ++k) code[k].image = std::move(compiled.code[k]);
    for (const auto& [ptx, unit] : users_) check_entry(*unit, {reinterpret_cast<const char*>(code[ptx].image.data()), code[ptx].image.size()});
    return std::move(code);
  }

  std::vector<DeviceCode> code;

 private:
  struct Group {
    std::string text;
    std::vector<std::string> kernels;
    std::vector<CodeUnit::Library> libraries;
    std::set<std::string> shared;
    size_t count = 0;

    Group& with(const CodeUnit& unit) {
      if (shared.insert(unit.shared).second) text += unit.shared;
      text += unit.text;
      for (const auto& library : unit.libraries) {
        if (std::find(libraries.begin(), libraries.end(), library) == libraries.end()) libraries.push_back(library);
      }
      kernels.insert(kernels.end(), unit.kernels.begin(), unit.kernels.end());
      ++count;
      return *this;
    }
    std::string whole() const {
      std::string out;
      for (const auto& library : libraries) out += library();
      return with_prelude(out + text);
    }
  };

  void flush(bool special) {
    Group& group = groups_[special];
    if (group.count > 0) push(group.whole(), group.kernels, special, {}, as_ptx_);
    group = {};
  }

  void push(const std::string& text, const std::vector<std::string>& kernels, bool special, const std::string& of, bool as_ptx) {
    for (bool ptx : {false, true}) {
      if (ptx && !as_ptx) continue;
      jobs_.push_back({text, target_.architecture, ptx ? CompileJob::Form::ptx : CompileJob::Form::cubin, special, of});
      code.push_back({ptx, target_.architecture, kernels, {}});
    }
  }

  const Target& target_;
  const bool as_ptx_;
  std::vector<CompileJob> jobs_;
  std::vector<std::pair<size_t, const CodeUnit*>> users_;  // and the index that their PTX will have
  const size_t together_;
  Group groups_[2];  // without and with matrix instructions
};

std::vector<DeviceCode> compile(std::span<const CodeUnit> units, const Target& target) {
  std::map<std::string_view, CodeUnit> distinct;
  for (const CodeUnit& u : units) distinct.try_emplace(u.name, u);
  // PTX is for later GPUs. They run a plan's code only if they can run all of it; else they compile the plan's graph.
  const bool as_ptx = target.architecture != 90 || std::none_of(units.begin(), units.end(), has_matrices);
  Jobs jobs(target, as_ptx, distinct.size());
  std::vector<DeviceCode> given;
  for (const auto& [name, unit] : distinct) {
    switch (unit.from) {
      case CodeUnit::From::ingot: jobs.add(unit); break;
      case CodeUnit::From::user_source: jobs.add_users(unit); break;
      case CodeUnit::From::user_portable: given.push_back(taken(unit, target)); break;
      case CodeUnit::From::user_machine: given.push_back(taken_cubin(unit, target)); break;
    }
  }
  std::vector<DeviceCode> out = jobs.run();
  for (DeviceCode& c : given) out.push_back(std::move(c));
  return out;
}

}  // namespace

extern const Compiler compiler;
const Compiler compiler{check, offers, compile};

}  // namespace ingot::backend::cuda
