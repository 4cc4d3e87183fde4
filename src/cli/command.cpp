#include "command.h"

#include <simdjson.h>

#include <charconv>
#include <cstring>
#include <random>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"

namespace ingot::cli {

void check(ingot_status status) {
  if (status == INGOT_OK) return;
  const ingot_error* e = ingot_last_error();
  std::string text = e->message;
  if (*e->origin && text.find(e->origin) == std::string::npos) text += std::string("\n  at ") + e->origin;
  if (*e->remedy) text += std::string("\n  remedy: ") + e->remedy;
  throw Failure{10 + static_cast<int>(status), text};
}

std::string take(char* text) {
  std::string s = text;
  ingot_string_release(text);
  return s;
}

namespace {

// Turns an error of the library into the failure of the command, with its exit code.
auto with_exit_code(auto&& act) {
  try {
    return act();
  } catch (const Error& e) {
    throw Failure{10 + static_cast<int>(e.code), e.message + (e.remedy.empty() ? "" : "\n  remedy: " + e.remedy)};
  }
}

}  // namespace

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts, unsigned mode) {
  with_exit_code([&] { write_atomically(path, parts, mode); });
}

void write_text(const std::string& path, const std::string& text) {
  const std::span<const std::byte> whole = std::as_bytes(std::span(text.data(), text.size()));
  write_file(path, {&whole, 1});
}

std::shared_ptr<const MappedFile> read_file(const std::string& path) {
  return with_exit_code([&] { return MappedFile::open(path, MappedFile::Access::whole); });
}

void Source::add_to(CLI::App& verb) {
  static const std::map<std::string, ingot_trust> levels{{"auto", INGOT_TRUST_AUTO}, {"data", INGOT_TRUST_DATA}, {"code", INGOT_TRUST_CODE}};
  verb.add_option("plan", path, "the plan")->required();
  verb.add_option_function<std::string>(
          "--trust",
          [this](const std::string& level) {
            is_signed = level == "signed";
            if (!is_signed) trust = levels.at(level);
          },
          "data: nothing of the file is executed; code: its device code is run; signed: as code, if one of --keys has signed it; auto: device code that you compiled on this "
          "machine is")
      ->check(CLI::IsMember({"auto", "data", "code", "signed"}))
      ->option_text("auto|data|code|signed");
  verb.add_option("--keys", keys, "of whoever may have signed it: ed25519:.., or a file with one a line; may be given several times")->allow_extra_args(false)->option_text("KEY");
  verb.add_flag("--no-mmap", whole, "read the file whole, for one that may be overwritten or cut off meanwhile");
}

Plan load_plan(const Source& source) {
  if (source.is_signed == source.keys.empty()) throw Failure{usage, "--trust signed and --keys go together"};
  ingot_plan* plan = nullptr;
  if (source.is_signed) {
    std::vector<const char*> keys;
    for (const std::string& key : source.keys) keys.push_back(key.c_str());
    check(ingot_plan_load_signed(source.path.c_str(), keys.data(), keys.size(), &plan));
    return Plan(plan);
  }
  check(ingot_plan_load_with(source.path.c_str(), source.trust, static_cast<int>(!source.whole), &plan));
  return Plan(plan);
}

Options make_options(const std::vector<std::string>& settings) {
  ingot_options* raw = nullptr;
  check(ingot_options_create(&raw));
  Options options(raw);
  for (const std::string& s : settings) {
    size_t equal = s.find('=');
    if (equal == std::string::npos) throw Failure{usage, "--set takes NAME=VALUE, not \"" + s + "\""};
    check(ingot_options_set(options.get(), s.substr(0, equal).c_str(), s.substr(equal + 1).c_str()));
  }
  return options;
}

namespace {

int64_t number(const std::string& text, const char* wanted, const std::string& given) {
  int64_t v = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || v < 0) throw Failure{usage, std::string(wanted) + ", not \"" + given + "\""};
  return v;
}

ingot_dtype dtype_named(std::string_view name) {
  for (int i = 0; i <= INGOT_FLOAT64; ++i) {
    if (name == dtype_name(static_cast<ingot_dtype>(i))) return static_cast<ingot_dtype>(i);
  }
  throw Failure{usage, "unknown dtype " + std::string(name)};
}

std::vector<Binding> bindings(simdjson::dom::element list) {
  std::vector<Binding> out;
  for (auto b : simdjson::dom::array(list)) {
    Binding binding{std::string(std::string_view(b["name"])), dtype_named(std::string_view(b["dtype"])), {}, b["written"].error() == simdjson::SUCCESS};
    for (auto d : simdjson::dom::array(b["dims"])) {
      binding.dims.push_back(d.is_string() ? std::string(std::string_view(d)) : std::to_string(int64_t(d)));
    }
    out.push_back(std::move(binding));
  }
  return out;
}

}  // namespace

Function describe(const ingot_plan* plan, size_t function) {
  char* text = nullptr;
  check(ingot_plan_describe(plan, &text));
  std::string json = take(text);
  simdjson::dom::parser parser;
  simdjson::dom::element document = parser.parse(json);
  auto f = document["functions"].at(function);
  Function out;
  out.inputs = bindings(f["inputs"]);
  out.outputs = bindings(f["outputs"]);
  out.states = bindings(f["states"]);
  return out;
}

namespace {

// Of the options for running, those of the two flags first.
Options run_options(int threads, const std::string& device, const std::vector<std::string>& settings) {
  std::vector<std::string> all{"threads=" + std::to_string(threads), "device=" + device};
  char* text = nullptr;
  check(ingot_options_describe(&text));
  const std::string json = take(text);
  simdjson::dom::parser parser;
  simdjson::dom::element table = parser.parse(json);
  for (const std::string& s : settings) {
    const std::string name = s.substr(0, s.find('='));
    for (auto o : simdjson::dom::array(table)) {
      if (text_of(o["name"]) == name && text_of(o["kind"]) != "session") throw Failure{usage, "option \"" + name + "\" is for compiling, not for running"};
    }
    all.push_back(s);
  }
  return make_options(all);
}

}  // namespace

Runner::Runner(const Source& source, int threads, const std::string& device, uint32_t index, const std::vector<std::string>& settings)
    : plan(load_plan(source)), options(run_options(threads, device, settings)), index(index) {
  ingot_weights* w = nullptr;
  check(ingot_weights_create(plan.get(), options.get(), &w));
  weights.reset(w);
  ingot_session* s = nullptr;
  check(ingot_session_create(plan.get(), weights.get(), index, options.get(), &s));
  session.reset(s);
  function = describe(plan.get(), index);
}

void StateSource::add_to(CLI::App& verb) {
  verb.add_option("--state", file, "the state to begin with (buffers, caches), as --save-state or State.save wrote it; else that of the plan");
  verb.add_option("--state-size", sizes, "an open size of the state's caches, by its name in `ingot inspect`: NAME=256");
}

void Runner::use(const StateSource& source) {
  if (!source.is_given()) return;
  std::vector<std::string> names;
  std::vector<ingot_size> sizes;
  for (const std::string& s : source.sizes) {
    const size_t equal = s.find('=');
    if (equal == std::string::npos) throw Failure{usage, "--state-size takes NAME=256, not \"" + s + "\""};
    names.push_back(s.substr(0, equal));
    sizes.push_back({nullptr, number(s.substr(equal + 1), "--state-size takes NAME=256", s)});
  }
  for (size_t i = 0; i < names.size(); ++i) sizes[i].name = names[i].c_str();
  ingot_state* made = nullptr;
  check(ingot_state_create_with(plan.get(), weights.get(), sizes.data(), sizes.size(), &made));
  state.reset(made);
  if (!source.file.empty()) check(ingot_state_load(state.get(), source.file.c_str()));
  check(ingot_session_set_state(session.get(), state.get()));
}

std::optional<std::vector<int64_t>> Runner::entry_of(const std::string& name) const {
  size_t count = 0;
  if (state != nullptr) check(ingot_state_count(state.get(), &count));
  for (size_t i = 0; i < count; ++i) {
    ingot_binding entry{};
    check(ingot_state_entry(state.get(), i, &entry));
    if (entry.name == name) return std::vector<int64_t>(entry.dims, entry.dims + entry.rank);
  }
  return std::nullopt;
}

namespace {

HostArray random_array(const Binding& b, std::vector<int64_t> dims, uint64_t seed) {
  HostArray a = HostArray::empty(b.dtype, std::move(dims));
  std::mt19937_64 generator(seed);
  size_t n = a.bytes.size() / dtype_size(b.dtype);
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < n; ++i) {
    std::byte* p = a.bytes.data() + i * dtype_size(b.dtype);
    if (b.dtype == INGOT_FLOAT32) {
      auto v = static_cast<float>(normal(generator));
      std::memcpy(p, &v, 4);
    } else if (b.dtype == INGOT_FLOAT64) {
      double v = normal(generator);
      std::memcpy(p, &v, 8);
    } else if (b.dtype == INGOT_FLOAT16 || b.dtype == INGOT_BFLOAT16) {
      // Any sign and fraction; magnitudes from 1/16 to 2.
      const int fraction = b.dtype == INGOT_FLOAT16 ? 10 : 7, exponent = b.dtype == INGOT_FLOAT16 ? 11 : 123;
      const uint64_t random = generator();
      const auto v = static_cast<uint16_t>((random & 1) << 15 | (static_cast<uint64_t>(exponent) + (random >> 1) % 5) << fraction | (random >> 32) % (uint64_t{1} << fraction));
      std::memcpy(p, &v, 2);
    } else {
      p[0] = static_cast<std::byte>(generator() & 1);  // 0 and 1 are valid ids, masks and bools
    }
  }
  return a;
}

}  // namespace

void Runner::fill(const std::vector<std::string>& given, const std::vector<std::string>& shapes) {
  std::map<std::string, std::string> sources, sizes;
  auto split = [&](const std::vector<std::string>& list, auto& into) {
    for (const std::string& s : list) {
      size_t equal = s.find('=');
      if (equal == std::string::npos) throw Failure{usage, "NAME=... expected, not \"" + s + "\""};
      std::string name = s.substr(0, equal);
      bool known = false;
      for (const Binding& b : function.inputs) known = known || b.name == name;
      if (!known) {
        std::string names;
        for (const Binding& b : function.inputs) names += (names.empty() ? "" : ", ") + b.name;
        throw Failure{usage, "the plan has no input \"" + name + "\"; it has " + names};
      }
      into[name] = s.substr(equal + 1);
    }
  };
  split(given, sources);
  split(shapes, sizes);
  inputs.clear();
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const Binding& b = function.inputs[i];
    auto source = sources.find(b.name);
    if (auto entry = entry_of(b.name); entry && source == sources.end() && !sizes.contains(b.name)) {
      inputs.push_back({b.dtype, std::move(*entry), {}});  // without memory: the state's
      continue;
    }
    if (source != sources.end() && !source->second.starts_with("random:")) {
      inputs.push_back(read_npy(source->second, b.dtype));
      continue;
    }
    std::vector<int64_t> dims;
    if (auto shape = sizes.find(b.name); shape != sizes.end()) {
      std::stringstream sizes_text(shape->second);
      for (std::string size; std::getline(sizes_text, size, ',');) dims.push_back(number(size, "--shape takes NAME=2,16", shape->second));
    } else {
      ingot_binding usual{};
      check(ingot_plan_input(plan.get(), index, i, &usual));
      dims.assign(usual.dims, usual.dims + usual.rank);
    }
    auto seed = static_cast<uint64_t>(source != sources.end() ? number(source->second.substr(7), "--input takes NAME=random:SEED", source->second) : 1);
    inputs.push_back(random_array(b, std::move(dims), seed + i));
  }
  in.clear();
  for (HostArray& a : inputs) {
    in.push_back(a.tensor());
    if (a.bytes.empty()) in.back().data = nullptr;
  }
  check(ingot_session_resolve(session.get(), in.data(), in.size()));
  outputs.clear();
  for (size_t o = 0; o < function.outputs.size(); ++o) {
    int32_t rank = 0;
    const int64_t* dims = nullptr;
    check(ingot_session_output(session.get(), o, &rank, &dims));
    int open = 0;
    check(ingot_plan_output_is_open(plan.get(), index, o, &open));
    outputs.push_back(HostArray::empty(function.outputs[o].dtype, open ? std::vector<int64_t>(static_cast<size_t>(rank)) : std::vector<int64_t>(dims, dims + rank)));
  }
  out.clear();
  for (HostArray& a : outputs) out.push_back(a.tensor());
  check(ingot_session_set_output_memory(session.get(), &Runner::late_output, this));
}

// Allocates an output whose sizes are read from data.
void* Runner::late_output(void* user, size_t output, const int64_t* dims, int32_t rank) {
  auto& runner = *static_cast<Runner*>(user);
  try {
    HostArray& a = runner.outputs[output] = HostArray::empty(runner.function.outputs[output].dtype, {dims, dims + rank});
    return a.tensor().data;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

HostArray Runner::written_input(size_t index) {
  HostArray& given = inputs[index];
  if (state == nullptr || in[index].data != nullptr) return given;
  HostArray a = HostArray::empty(given.dtype, given.dims);
  check(ingot_state_read(state.get(), function.inputs[index].name.c_str(), a.bytes.data(), a.bytes.size()));
  return a;
}

HostArray Runner::state_array(size_t index) {
  const Binding& b = function.states[index];
  std::vector<int64_t> dims;
  for (const std::string& d : b.dims) dims.push_back(number(d, "a state has sizes that are numbers", d));
  HostArray a = HostArray::empty(b.dtype, std::move(dims));
  check(ingot_session_state(session.get(), index, a.bytes.data(), a.bytes.size(), 0));
  return a;
}

void Runner::run() {
  for (size_t o = 0; o < out.size(); ++o) {
    int open = 0;
    check(ingot_plan_output_is_open(plan.get(), index, o, &open));
    if (open) out[o].data = nullptr;
  }
  check(ingot_session_run_with(session.get(), in.data(), in.size(), out.data(), out.size()));
}

void Runner::trace(const std::string& path) {
  check(ingot_session_profile(session.get(), 1, nullptr));
  run();
  char* text = nullptr;
  check(ingot_session_trace(session.get(), &text));
  check(ingot_session_profile(session.get(), 0, nullptr));
  write_text(path, take(text));
}

}  // namespace ingot::cli
