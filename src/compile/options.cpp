#include "compile/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <span>

#include "backend/run/registry.h"
#include "base/error.h"
#include "base/text.h"
#include "compile/hardware.h"

namespace ingot::compile {

namespace {

// "cpu,cuda:sm_90": distinct targets. "auto" is the CPU, unless the caller chose otherwise.
std::optional<std::vector<Target>> parse_targets(std::string_view text) {
  if (text == "auto") return std::vector<Target>(1);
  std::vector<Target> targets;
  for (;;) {
    const std::string_view one = text.substr(0, text.find(','));
    const std::optional<Target> target = parse_target(one);
    if (!target || std::find(targets.begin(), targets.end(), *target) != targets.end()) return std::nullopt;
    targets.push_back(*target);
    if (one.size() == text.size()) return targets;
    text.remove_prefix(one.size() + 1);
  }
}

void check_gpus(std::string_view text) {
  const std::vector<Target> targets = *parse_targets(text);
  for (const Target& t : targets) {
    if (t.kind != Target::Kind::cuda || t.architecture >= hardware::oldest_gpu) continue;
    throw Error(Code::unsupported, fmt::format("ingot does not compile for {}: its GPUs begin with sm_{}", t.text(), hardware::oldest_gpu))
        .fix(fmt::format("take a target from cuda:sm_{} on; on an older GPU run the model on the CPU", hardware::oldest_gpu));
  }
}

// The CPU of this name in the table of machines; null: there is none.
const Machine* row_of(std::string_view name) {
  for (const KnownMachine& k : known_machines()) {
    if (k.name == name && name.starts_with("cpu:")) return &k.machine;
  }
  return nullptr;
}

template <class T>
std::optional<T> parse(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// What an option may be, and how a message says it: the words, or a rule.
struct Values {
  std::array<std::string_view, 4> words = {};
  bool (*allow)(std::string_view) = nullptr;
  std::string_view needed = {};
};

// The column `values` of options.def.
namespace allowed {
constexpr Values any;
template <class... Words>
constexpr Values one_of(Words... words) {
  return {{words...}};
}
constexpr Values flag = one_of("true", "false");
constexpr Values count = {{}, [](std::string_view t) { return parse<int32_t>(t).value_or(-1) >= 0; }, "an integer of 0 or more"};
constexpr Values microseconds = {{},
                                 [](std::string_view t) { return parse<int32_t>(t).value_or(-2) >= -1 && *parse<int32_t>(t) <= max_wait_us; },
                                 "microseconds from 0 to 1000000, or -1 (INGOT_WAIT in the environment)"};
constexpr Values group = {{}, [](std::string_view t) { return t == "32" || t == "64" || t == "128"; }, "32, 64 or 128"};
constexpr Values number = {{}, [](std::string_view t) { return std::isfinite(parse<double>(t).value_or(NAN)) && *parse<double>(t) >= 0; }, "a number of 0 or more"};
constexpr Values bytes = {{}, [](std::string_view t) { return parse<int64_t>(t).value_or(-2) >= -1; }, "a number of bytes, 0 (no limit) or -1 (nine tenths of the free memory)"};
constexpr Values targets = {
    {}, [](std::string_view t) { return parse_targets(t).has_value(); }, "\"cpu\", a GPU's architecture such as \"cuda:sm_90\", \"reference\", several of them, or \"auto\""};
constexpr Values device = {
    {}, [](std::string_view t) { return t == "auto" || backend::find_device(t).devices != nullptr; }, "\"cpu\", \"cuda\", \"cuda:1\", \"reference\" or \"auto\""};
constexpr Values half_type = {{}, [](std::string_view t) { return t == "none" || autocast_type(t); }, "\"none\", \"float16\" or \"bfloat16\""};
constexpr Values machine = {{},
                            [](std::string_view t) { return t == "table" || t == "measured" || parse_machine(t) || row_of(t) != nullptr; },
                            "\"table\", \"measured\", a row of the table such as \"cpu:avx2\", or the numbers in a plan's provenance"};
constexpr Values flag_or_path = {{}, [](std::string_view t) { return !t.empty(); }, "true, false or the path of a file"};

}  // namespace allowed

constexpr Option table[] = {
#define X(name, type, values, default_text, kind, sentence) {#name, #type, default_text, #kind, OptionKind::kind, sentence},
#include "compile/options.def"
#undef X
};

constexpr Values values_of[] = {
#define X(name, type, values, default_text, kind, sentence) allowed::values,
#include "compile/options.def"
#undef X
};

size_t index_of(std::string_view name) {
  for (size_t i = 0; i < std::size(table); ++i) {
    if (table[i].name == name) return i;
  }
  std::vector<std::string_view> names;
  for (const Option& o : table) names.push_back(o.name);
  Error problem(Code::invalid_option, fmt::format("there is no option \"{}\"", name));
  std::string_view near = nearest(name, names);
  std::string all;
  for (std::string_view n : names) all += (all.empty() ? "" : ", ") + std::string(n);
  throw problem.fix(near.empty() ? "the options are " + all : fmt::format("did you mean \"{}\"?", near));
}

// "a", "b" or "c".
std::string listed(std::span<const std::string_view> words) {
  std::string all;
  for (size_t k = 0; k < words.size(); ++k) all += fmt::format("{}\"{}\"", k == 0 ? "" : k + 1 == words.size() ? " or " : ", ", words[k]);
  return all;
}

void check_value(size_t option, std::string_view text) {
  const Values& values = values_of[option];
  const std::span<const std::string_view> words(values.words.begin(), std::find(values.words.begin(), values.words.end(), std::string_view()));
  const bool allowed = values.allow != nullptr ? values.allow(text) : words.empty() || std::find(words.begin(), words.end(), text) != words.end();
  if (!allowed) fail(Code::invalid_option, "option {} is \"{}\"; {} is needed", table[option].name, text, values.allow != nullptr ? std::string(values.needed) : listed(words));
}

}  // namespace

std::span<const Option> option_table() { return table; }

Options::Options() {
  for (const Option& o : table) values_.emplace_back(o.default_text);
  const char* cache = std::getenv("INGOT_CACHE");  // overrides the default
  if (cache == nullptr || *cache == '\0') return;
  try {
    set("cache", cache);
  } catch (Error& e) {
    throw std::move(e).fix("unset INGOT_CACHE in the environment, or set it to one of these");
  }
}

void Options::set(std::string_view name, std::string_view text) {
  size_t i = index_of(name);
  check_value(i, text);
  if (name == "target") check_gpus(text);
  values_[i] = text;
}

std::optional<ir::DType> autocast_type(std::string_view text) {
  const std::optional<ir::DType> type = ir::dtype_from_name(text);
  return type && ir::is_float(*type) && ir::size_of(*type) == 2 ? type : std::nullopt;
}

bool products_by_tf32(const Options& options) { return options.text("matmul_precision") == "tf32"; }

bool convolutions_by_tf32(const Options& options) {
  const std::string& own = options.text("convolution_precision");
  return own == "torch" ? products_by_tf32(options) : own == "tf32";
}

Machine machine_of(const Target& target, const Options& options) {
  const std::string& text = options.text("machine");
  if (target.kind != Target::Kind::cpu || text == "table") return machine_for(target);
  if (const Machine* row = row_of(text)) return *row;
  return parse_machine(text).value_or(machine_for(target));
}

const std::string& Options::text(std::string_view name) const { return values_[index_of(name)]; }

int64_t Options::integer(std::string_view name) const {
  const std::string& t = text(name);
  int64_t v = 0;
  std::from_chars(t.data(), t.data() + t.size(), v);
  return v;
}

double Options::number(std::string_view name) const {
  const std::string& t = text(name);
  double v = 0;
  std::from_chars(t.data(), t.data() + t.size(), v);
  return v;
}

std::vector<Target> Options::targets() const { return *parse_targets(text("target")); }

std::vector<std::string> Options::list(std::string_view name) const {
  std::vector<std::string> out;
  std::string_view rest = text(name);
  while (!rest.empty()) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (!one.empty()) out.emplace_back(one);
  }
  return out;
}

}  // namespace ingot::compile
