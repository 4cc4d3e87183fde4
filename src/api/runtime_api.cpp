// The part of ingot.h about plans, weights, options and machines; in libingot_runtime and libingot.
#include <algorithm>
#include <cstring>

#include "api/guard.h"
#include "api/handles.h"
#include "api/plan_for.h"
#include "backend/cpu/run/isa.h"
#include "backend/run/registry.h"
#include "base/log.h"
#include "base/shared_library.h"
#include "base/step_watch.h"
#include "base/text.h"
#include "plan/describe.h"
#include "plan/regions.h"
#include "runtime/product_sums.h"
#include "runtime/strided.h"

namespace ingot::api {

const plan::Function& function_of(const ingot_plan& plan, uint32_t function) {
  const auto& all = plan.plan->functions;
  if (function >= all.size()) fail(Code::invalid_input, "there is no function {}: the plan has {}, counted from 0", function, all.size());
  return all[function];
}

namespace {

static_assert(static_cast<int>(Code::io) == INGOT_IO && static_cast<int>(Code::singular) == INGOT_SINGULAR && static_cast<int>(Code::unsupported) == INGOT_UNSUPPORTED &&
              static_cast<int>(Code::format) == INGOT_FORMAT);
static_assert(static_cast<int>(plan::Trust::data) == INGOT_TRUST_DATA && static_cast<int>(plan::Trust::code) == INGOT_TRUST_CODE);
static_assert(static_cast<int>(ir::DType::f64) == INGOT_FLOAT64 && static_cast<int>(ir::DType::b8) == INGOT_BOOL && static_cast<int>(ir::DType::f16) == INGOT_FLOAT16);

struct LastError {
  std::string message, origin, remedy;
  ingot_error view{INGOT_OK, "", "", ""};
};
thread_local LastError last;

using Kind = plan::Binding::Kind;

size_t count(const plan::Function& f, Kind kind) {
  return static_cast<size_t>(std::count_if(f.bindings.begin(), f.bindings.end(), [&](const plan::Binding& b) { return b.kind == kind; }));
}

// Binding number `index` of this kind.
ingot_binding binding(const ingot_plan& plan, uint32_t function, Kind kind, size_t index) {
  const plan::Function& f = function_of(plan, function);
  constexpr const char* names[] = {"input", "output", "state"};
  size_t all = count(f, kind);
  if (index >= all) fail(Code::invalid_input, "there is no {} {}: the function has {}, counted from 0", names[static_cast<int>(kind)], index, all);
  for (int before = 0; before < static_cast<int>(kind); ++before) index += count(f, static_cast<Kind>(before));
  const plan::Binding& b = f.bindings[index];
  const std::vector<int64_t>& dims = plan.usual_dims[function][index];
  return {b.name.c_str(), static_cast<ingot_dtype>(b.dtype), static_cast<int32_t>(dims.size()),
          dims.data(),    b.written || kind == Kind::state,  b.order.empty() ? nullptr : b.order.data()};
}

// "name": "text", for each pair
std::string json_texts(std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  std::string s;
  for (const auto& [name, text] : fields) {
    s += fmt::format("{}\"{}\": ", s.empty() ? "" : ", ", name);
    append_json_string(s, text);
  }
  return s;
}

// The fields "gpus" and "libraries" of a machine. A missing library has the error that its user would get.
std::string gpus_json() {
  std::string gpus, libraries;
  auto problem = [] { return json_texts({{"problem", last.message}, {"remedy", last.remedy}}); };
  auto add = [](std::string& list, const std::string& fields) { list += fmt::format("{}{{{}}}", list.empty() ? "" : ", ", fields); };
  for (const backend::Devices* devices : backend::all_devices()) {
    bool driver = true;
    for (const backend::DeviceLibrary& library : devices->libraries) {
      backend::FoundLibrary found;
      const bool there = guard([&] { found = library.find(); }) == INGOT_OK;
      add(libraries, json_texts({{"name", library.name}}) + ", " + (there ? json_texts({{"version", found.version}, {"path", found.path}}) : problem()));
      driver = driver && (there || &library != devices->libraries.data());
    }
    std::vector<backend::DeviceDescription> all;
    if (devices->describe != nullptr && driver && guard([&] { all = devices->describe(); }) != INGOT_OK) add(gpus, problem());
    for (const backend::DeviceDescription& g : all) add(gpus, json_texts({{"name", g.name}, {"architecture", g.architecture}}) + fmt::format(", \"memory\": {}", g.memory));
  }
  return fmt::format("\"gpus\": [{}], \"libraries\": [{}]", gpus, libraries);
}

plan::Trust trust_of(ingot_trust trust) {
  const int number = static_cast<int>(trust);
  if (number < 0 || number > INGOT_TRUST_CODE) fail(Code::invalid_input, "there is no level of trust {}", number);
  return static_cast<plan::Trust>(number);
}

struct Bytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;
};

// The caller's bytes, or an aligned copy: numbers are read in place.
Bytes aligned(const void* data, size_t bytes) {
  const std::byte* given = &required(static_cast<const std::byte*>(data), "data");
  if (reinterpret_cast<uintptr_t>(data) % 16 == 0) return {{given, bytes}, nullptr};
  auto copy = std::make_shared_for_overwrite<std::byte[]>(bytes);
  std::memcpy(copy.get(), given, bytes);
  return {{copy.get(), bytes}, copy};
}

std::string device_of(const ingot_options* options) { return options == nullptr ? "auto" : options->values.text("device"); }
int64_t limit_of(const ingot_options* options) { return options == nullptr ? 0 : options->values.integer("memory_bytes"); }

}  // namespace

ingot_status remember(Code code, std::string message, std::string origin, std::string remedy) noexcept {
  last.message = std::move(message);
  last.origin = std::move(origin);
  last.remedy = std::move(remedy);
  last.view = {static_cast<ingot_status>(code), last.message.c_str(), last.origin.c_str(), last.remedy.c_str()};
  return last.view.status;
}

ingot_status remember_out_of_memory() noexcept {
  last.view = {INGOT_OUT_OF_MEMORY, "memory could not be allocated", "", "free memory, or use smaller batch and sequence sizes"};
  return INGOT_OUT_OF_MEMORY;
}

char* give_text(const std::string& text) {
  char* copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace ingot::api

using namespace ingot;
using namespace ingot::api;

ingot_plan::ingot_plan(std::shared_ptr<const plan::Plan> of) : plan(std::move(of)) {
  for (const plan::Function& f : plan->functions) {
    std::vector<int64_t> symbols, sizes(f.sizes.code.size());
    for (const plan::Symbol& s : f.symbols) symbols.push_back(s.opt);
    try {
      evaluate(f.sizes, symbols, sizes);
    } catch (const Error&) {
      // The usual sizes contradict each other: the plan runs at others. Sizes that could not be computed are given as 0.
    }
    auto& all = usual_dims.emplace_back();
    for (const plan::Binding& b : f.bindings) {
      auto& dims = all.emplace_back();
      for (plan::SizeRef d : b.dims) dims.push_back(sizes[d]);
    }
  }
}

namespace {

std::unique_ptr<Workers> pool_to_measure(int32_t threads, double seconds) {
  if (threads < 0 || threads > 1024 || !(seconds > 0 && seconds <= 60))
    fail(Code::invalid_input, "threads is {} and seconds {}: 0 to 1024 and up to 60 are possible", threads, seconds);
  return make_pool(threads);
}

}  // namespace

extern "C" {

ingot_status ingot_version(int32_t* major, int32_t* minor, int32_t* patch) {
  return guard([&] {
    required(major, "major") = 0;
    required(minor, "minor") = 1;
    required(patch, "patch") = 0;
  });
}

const ingot_error* ingot_last_error(void) { return &last.view; }

void ingot_string_release(char* text) { delete[] text; }

ingot_status ingot_set_library_folders(const char* const* folders, size_t count) {
  return guard([&] {
    if (count > 0) required(folders, "folders");
    std::vector<std::string> list;
    for (size_t i = 0; i < count; ++i) list.emplace_back(&required(folders[i], "folder"));
    set_library_folders(std::move(list));
  });
}

ingot_status ingot_set_log(ingot_log log, void* user) {
  static_assert(static_cast<int>(LogLevel::warning) == INGOT_LOG_WARNING);
  return guard([&] { set_log(reinterpret_cast<LogFunction>(log), user); });
}

ingot_status ingot_set_step_watch(const ingot_step_watch* watch) {
  return guard([&] {
    if (watch == nullptr) return set_step_watch(nullptr);
    required(watch->wanted, "wanted");
    required(watch->begin, "begin");
    required(watch->end, "end");
    const StepWatch copied{watch->wanted, watch->begin, watch->end, watch->user};
    set_step_watch(&copied);
  });
}

ingot_status ingot_describe_machine(char** json) {
  return guard([&] {
    required(json, "json") =
        give_text(fmt::format("{{\"version\": \"0.1.0\", \"isa\": \"{}\", \"threads\": {}, {}}}", backend::cpu::name_of(backend::cpu::isa()), usable_threads(), gpus_json()));
  });
}

ingot_status ingot_measure_machine(int32_t threads, double seconds, char** json) {
  return guard([&] {
    required(json, "json");
    std::unique_ptr<Workers> workers = pool_to_measure(threads, seconds);
    backend::MachineLimits limits = backend::measure_limits(*workers, seconds);
    *json = give_text(fmt::format("{{\"flops\": {:.6g}, \"bf16_flops\": {:.6g}, \"bytes_per_second\": {:.6g}}}", limits.flops, limits.bf16_flops, limits.bytes_per_second));
  });
}

ingot_status ingot_measure_rates(int32_t threads, double seconds, char** json) {
  return guard([&] {
    required(json, "json");
    std::unique_ptr<Workers> workers = pool_to_measure(threads, seconds);
    const Machine measured = backend::measure_machine(*workers, seconds);
    std::string s = "{\"processor\": ";
    append_json_string(s, backend::cpu_backend().machine());
    s += ", \"rates\": {";
    for (const MachineField& f : machine_fields()) s += fmt::format("{}\"{}\": {:.6g}", &f == machine_fields().data() ? "" : ", ", f.name, measured.*f.value);
    *json = give_text(s + "}}");
  });
}

ingot_status ingot_options_create(ingot_options** out) {
  return guard([&] { required(out, "out") = new ingot_options(); });
}

ingot_status ingot_options_set(ingot_options* options, const char* name, const char* value) {
  return guard([&] { required(options, "options").values.set(&required(name, "name"), &required(value, "value")); });
}

ingot_status ingot_options_describe(char** json) {
  return guard([&] {
    std::string s = "[";
    for (const compile::Option& o : compile::option_table()) {
      if (s.size() > 1) s += ", ";
      s += "{\"name\": ";
      append_json_string(s, o.name);
      s += ", \"type\": ";
      append_json_string(s, o.type);
      s += ", \"default\": ";
      append_json_string(s, o.default_text);
      s += ", \"kind\": ";
      append_json_string(s, o.kind_name);
      s += ", \"meaning\": ";
      append_json_string(s, o.sentence);
      s += "}";
    }
    required(json, "json") = give_text(s + "]");
  });
}

void ingot_options_release(ingot_options* options) { delete options; }

ingot_status ingot_plan_load(const char* path, ingot_plan** out) { return ingot_plan_load_with(path, INGOT_TRUST_AUTO, 1, out); }

ingot_status ingot_plan_load_with(const char* path, ingot_trust trust, int map, ingot_plan** out) {
  return guard([&] {
    required(out, "out") = new ingot_plan{current(plan::read_file(&required(path, "path"), trust_of(trust), map != 0 ? MappedFile::Access::mapped : MappedFile::Access::whole))};
  });
}

ingot_status ingot_plan_load_signed(const char* path, const char* const* keys, size_t count, ingot_plan** out) {
  return guard([&] { required(out, "out") = new ingot_plan{current(plan::read_signed_file(&required(path, "path"), texts(keys, count, "keys")))}; });
}

ingot_status ingot_plan_load_memory(const void* data, size_t bytes, ingot_plan** out) { return ingot_plan_load_memory_with(data, bytes, INGOT_TRUST_AUTO, out); }

ingot_status ingot_plan_load_memory_with(const void* data, size_t bytes, ingot_trust trust, ingot_plan** out) {
  return guard([&] {
    const Bytes given = aligned(data, bytes);
    required(out, "out") = new ingot_plan{current(plan::read(given.bytes, given.keep, trust_of(trust)))};
  });
}

ingot_status ingot_plan_load_memory_signed(const void* data, size_t bytes, const char* const* keys, size_t count, ingot_plan** out) {
  return guard([&] {
    const Bytes given = aligned(data, bytes);
    required(out, "out") = new ingot_plan{current(plan::read_signed(given.bytes, given.keep, texts(keys, count, "keys")))};
  });
}

ingot_status ingot_plan_save(const ingot_plan* plan, const char* path) {
  return guard([&] { plan::write_file(*required(plan, "plan").plan, &required(path, "path")); });
}

ingot_status ingot_plan_write(const ingot_plan* plan, int values, uint8_t** bytes, size_t* count) {
  return guard([&] {
    required(bytes, "bytes"), required(count, "count");
    std::vector<std::byte> written = plan::write(*required(plan, "plan").plan, values != 0 ? plan::Values::embedded : plan::Values::left_out);
    auto* copy = new uint8_t[written.size()];
    std::memcpy(copy, written.data(), written.size());
    *bytes = copy;
    *count = written.size();
  });
}

void ingot_bytes_release(uint8_t* bytes) { delete[] bytes; }

ingot_status ingot_plan_part(const ingot_plan* plan, uint32_t function, ingot_plan** out) {
  return guard([&] { required(out, "out") = new ingot_plan{std::make_shared<plan::Plan>(plan::part(*required(plan, "plan").plan, function))}; });
}

ingot_status ingot_plan_with_weights(const ingot_plan* plan, const ingot_weight_source* values, size_t count, ingot_plan** out) {
  return guard([&] {
    required(out, "out");
    auto made = std::make_shared<plan::Plan>(*required(plan, "plan").plan);
    for (const ingot_weight_source& value : std::span(count > 0 ? &required(values, "values") : nullptr, count)) {
      std::string_view name = &required(value.name, "name");
      bool found = false;
      for (plan::Weight& w : made->weights) {
        if (!w.is_named(name)) continue;
        found = true;
        if (w.bytes != value.bytes) fail(Code::invalid_input, "weight \"{}\" has {} bytes, but {} are given", name, w.bytes, value.bytes);
        w.data = value.bytes > 0 ? &required(static_cast<const std::byte*>(value.data), "data") : nullptr;
        w.source = plan::Weight::Source::embedded;
        w.keep = nullptr;
        const runtime::HostTensor given = runtime::value_of(w, w.data, value.strides);
        if (runtime::is_dense_in(w.order, given)) continue;
        auto copy = std::make_shared<const MemoryBlock>(w.bytes, system_allocator());
        runtime::copy_strided(given, w.order, copy->data(), true);
        w.data = copy->data();
        w.keep = std::move(copy);
      }
      if (!found) fail(Code::invalid_input, "the plan has no weight \"{}\"", name);
    }
    made->hash = {};
    made->weights_hash.reset();
    made->signer.clear();
    *out = new ingot_plan{std::move(made)};
  });
}

ingot_status ingot_plan_hash(const ingot_plan* plan, uint8_t* hash) {
  return guard([&] { std::memcpy(&required(hash, "hash"), required(plan, "plan").plan->hash.data(), 32); });
}

ingot_status ingot_plan_verify(const ingot_plan* plan) {
  return guard([&] { plan::verify_content(*required(plan, "plan").plan); });
}

ingot_status ingot_plan_count(const ingot_plan* plan, uint32_t function, size_t* inputs, size_t* outputs) {
  return guard([&] {
    const plan::Function& f = function_of(required(plan, "plan"), function);
    required(inputs, "inputs"), required(outputs, "outputs");
    *inputs = count(f, Kind::input);
    *outputs = count(f, Kind::output);
  });
}

ingot_status ingot_plan_input(const ingot_plan* plan, uint32_t function, size_t index, ingot_binding* out) {
  return guard([&] { required(out, "out") = binding(required(plan, "plan"), function, Kind::input, index); });
}

ingot_status ingot_plan_output(const ingot_plan* plan, uint32_t function, size_t index, ingot_binding* out) {
  return guard([&] { required(out, "out") = binding(required(plan, "plan"), function, Kind::output, index); });
}

ingot_status ingot_plan_output_is_open(const ingot_plan* plan, uint32_t function, size_t index, int* open) {
  return guard([&] {
    binding(required(plan, "plan"), function, Kind::output, index);  // checks that it exists
    const plan::Function& f = function_of(*plan, function);
    const plan::Binding& b = f.bindings[count(f, Kind::input) + index];
    const std::vector<uint32_t> known = plan::known_after(f);
    required(open, "open") = std::any_of(b.dims.begin(), b.dims.end(), [&](plan::SizeRef d) { return known[d] > 0; });
  });
}

ingot_status ingot_plan_state_count(const ingot_plan* plan, uint32_t function, size_t* states) {
  return guard([&] { required(states, "states") = count(function_of(required(plan, "plan"), function), Kind::state); });
}

ingot_status ingot_plan_state(const ingot_plan* plan, uint32_t function, size_t index, ingot_binding* out) {
  return guard([&] { required(out, "out") = binding(required(plan, "plan"), function, Kind::state, index); });
}

ingot_status ingot_plan_weight_count(const ingot_plan* plan, size_t* count) {
  return guard([&] { required(count, "count") = required(plan, "plan").plan->weights.size(); });
}

ingot_status ingot_plan_weight(const ingot_plan* plan, size_t index, ingot_binding* out) {
  return guard([&] {
    const std::vector<plan::Weight>& all = required(plan, "plan").plan->weights;
    if (index >= all.size()) fail(Code::invalid_input, "there is no weight {}: the plan has {}, counted from 0", index, all.size());
    const plan::Weight& w = all[index];
    required(out, "out") = {w.name.c_str(), static_cast<ingot_dtype>(w.dtype),           static_cast<int32_t>(w.dims.size()),
                            w.dims.data(),  plan::only_first_values(*plan->plan)[index], w.order.empty() ? nullptr : w.order.data()};
  });
}

ingot_status ingot_plan_weight_value(const ingot_plan* plan, size_t index, const void** data) {
  return guard([&] {
    const std::vector<plan::Weight>& all = required(plan, "plan").plan->weights;
    if (index >= all.size()) fail(Code::invalid_input, "there is no weight {}: the plan has {}, counted from 0", index, all.size());
    required(data, "data") = all[index].source == plan::Weight::Source::host ? nullptr : all[index].data;
  });
}

ingot_status ingot_plan_describe(const ingot_plan* plan, char** json) {
  return guard([&] { required(json, "json") = give_text(plan::describe(*required(plan, "plan").plan)); });
}

ingot_status ingot_plan_programs(const ingot_plan* plan, char** text) {
  return guard([&] { required(text, "text") = give_text(plan::print_programs(*required(plan, "plan").plan)); });
}

ingot_status ingot_plan_graph(const ingot_plan* plan, uint32_t function, char** text) {
  return guard([&] { required(text, "text") = give_text(function_of(required(plan, "plan"), function).graph); });
}

void ingot_plan_release(ingot_plan* plan) { delete plan; }

ingot_status ingot_weights_create(const ingot_plan* plan, const ingot_options* options, ingot_weights** out) {
  return guard([&] {
    required(out, "out");
    std::string device = device_of(options);
    std::shared_ptr<const plan::Plan> given = required(plan, "plan").plan, runs = plan_for(given, device);
    *out = new ingot_weights{std::make_shared<runtime::Weights>(std::move(runs), threads_of(options), system_allocator(), device, limit_of(options)), std::move(given)};
  });
}

ingot_status ingot_weights_fork(const ingot_weights* weights, ingot_weights** out) {
  return guard([&] { required(out, "out") = new ingot_weights{required(weights, "weights").weights->fork(), weights->given}; });
}

ingot_status ingot_weights_add_products(const ingot_weights* weights, ingot_dtype dtype, const int64_t* sizes, void* const* memory, size_t count, void* stream) {
  return guard([&] {
    if (count > 0) required(memory, "memory");
    const int64_t m = required(sizes, "sizes"), n = sizes[1], k = sizes[2];
    if (m < 0 || n < 0 || k < 0) fail(Code::invalid_input, "a product has the sizes {}, {} and {}", m, n, k);
    if (!ir::is_float(static_cast<ir::DType>(dtype)))
      fail(Code::invalid_input, "products are added to weights of floating-point types, and type {} is none", static_cast<int>(dtype));
    std::vector<runtime::ProductSum> sums;
    auto at = [&](size_t i) { return static_cast<std::byte*>(memory[i]); };
    for (size_t i = 0; i < count; ++i) sums.push_back({at(4 * i), at(4 * i + 1), at(4 * i + 2), at(4 * i + 3)});
    runtime::sum_products(required(weights, "weights").weights->backend(), static_cast<ir::DType>(dtype), m, n, k, sums, stream);
  });
}

ingot_status ingot_weights_device(const ingot_weights* weights, int32_t* gpu) {
  return guard([&] { required(gpu, "gpu") = required(weights, "weights").weights->backend().ordinal(); });
}

ingot_status ingot_weights_set(ingot_weights* weights, const char* name, const void* data, size_t bytes, const int64_t* strides, int copy) {
  return guard([&] {
    if (bytes > 0) required(static_cast<const std::byte*>(data), "data");
    required(weights, "weights").weights->set(&required(name, "name"), data, bytes, copy != 0, strides);
  });
}

ingot_status ingot_weights_commit(ingot_weights* weights) {
  return guard([&] { required(weights, "weights").weights->commit(0); });
}

ingot_status ingot_weights_set_memory(ingot_weights* weights, int64_t memory_bytes) {
  return guard([&] { required(weights, "weights").weights->set_limit(memory_bytes); });
}

ingot_status ingot_weights_memory(const ingot_weights* weights, ingot_memory* out) {
  return guard([&] { required(out, "out") = memory_of(required(weights, "weights").weights->usage()); });
}

void ingot_weights_release(ingot_weights* weights) { delete weights; }

}  // extern "C"
