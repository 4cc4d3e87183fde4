// ingot for C++20: ingot.h with handles that release themselves, and with exceptions for failures. Header-only; link libingot_runtime to run plans, or
// libingot for what is marked [compiler]. Each function is documented in ingot.h, under the C function that it calls.
//
// Running a plan on [2, 16] token ids:
//
//   ingot::Plan plan = ingot::Plan::load("model.ingot");
//   ingot::Weights weights(plan);
//   ingot::Session session(plan, weights);
//   std::vector<int64_t> ids(2 * 16, 101);
//   std::vector<ingot::Tensor> results = session.run({ingot::Tensor(std::span(ids), {2, 16})});
//   std::span<const float> values = results[0].values<float>();
#ifndef INGOT_HPP
#define INGOT_HPP

#if __cplusplus <= 201703L
#error "ingot.hpp needs C++20: compile with -std=c++20 or later"
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ingot.h"

namespace ingot {

// A copy of ingot_last_error(). what() is all of it as one text.
class Error : public std::exception {
 public:
  Error(ingot_status code, std::string message, std::string origin = {}, std::string remedy = {})
      : code_(code), message_(std::move(message)), origin_(std::move(origin)), remedy_(std::move(remedy)), text_(message_) {
    if (!origin_.empty()) text_ += "\n  at " + origin_;
    if (!remedy_.empty()) text_ += "\n  remedy: " + remedy_;
  }
  const char* what() const noexcept override { return text_.c_str(); }
  ingot_status code() const { return code_; }
  const std::string& message() const { return message_; }  // what happened to which value, and why
  const std::string& origin() const { return origin_; }    // the line of the user's program, or ""
  const std::string& remedy() const { return remedy_; }    // what to do, or ""

 private:
  ingot_status code_;
  std::string message_, origin_, remedy_, text_;
};

namespace detail {

inline void check(ingot_status status) {
  if (status == INGOT_OK) return;
  const ingot_error* e = ingot_last_error();
  throw Error(e->status, e->message, e->origin, e->remedy);
}

template <auto Release>
struct Releaser {
  void operator()(auto* handle) const { Release(handle); }
};
template <class T, auto Release>
using Handle = std::unique_ptr<T, Releaser<Release>>;

// The handle from `create(arguments..., &handle)`.
template <class H, class Create, class... A>
H make(Create create, A... arguments) {
  typename H::pointer handle = nullptr;
  check(create(arguments..., &handle));
  return H(handle);
}

// The text from `describe(arguments..., &text)`.
template <class Describe, class... A>
std::string text(Describe describe, A... arguments) {
  auto given = make<Handle<char, ingot_string_release>>(describe, arguments...);
  return given.get();
}

template <class T>
constexpr ingot_dtype dtype_of() {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return INGOT_BOOL;
  else if constexpr (std::is_same_v<U, uint8_t>)
    return INGOT_UINT8;
  else if constexpr (std::is_same_v<U, int8_t>)
    return INGOT_INT8;
  else if constexpr (std::is_same_v<U, int16_t>)
    return INGOT_INT16;
  else if constexpr (std::is_same_v<U, int32_t>)
    return INGOT_INT32;
  else if constexpr (std::is_same_v<U, int64_t>)
    return INGOT_INT64;
  else if constexpr (std::is_same_v<U, float>)
    return INGOT_FLOAT32;
  else {
    static_assert(std::is_same_v<U, double>, "plans have no such dtype; give data and dtype of a half type by Tensor(dtype, data, dims)");
    return INGOT_FLOAT64;
  }
}

}  // namespace detail

inline size_t size_of(ingot_dtype dtype) {
  constexpr size_t sizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return sizes[dtype];
}

// A tensor in host memory, with dtype, dims and strides. The memory belongs to the caller; that of zeros() is shared by the tensor and its copies.
class Tensor {
 public:
  // Row-major values. Tensors of const values may be inputs, but not outputs.
  template <class T, size_t N>
  Tensor(std::span<T, N> values, std::vector<int64_t> dims) : Tensor(detail::dtype_of<T>(), const_cast<std::remove_const_t<T>*>(values.data()), std::move(dims)) {
    if (values.size() != count()) throw Error(INGOT_INVALID_INPUT, "a tensor of " + std::to_string(count()) + " elements is given " + std::to_string(values.size()));
  }
  // Strides are in elements; none = row-major. Without data it is only a shape, for Session::resolve.
  Tensor(ingot_dtype dtype, void* data, std::vector<int64_t> dims, std::vector<int64_t> strides = {})
      : dtype_(dtype), data_(data), dims_(std::move(dims)), strides_(std::move(strides)) {
    if (!strides_.empty() && strides_.size() != dims_.size()) throw Error(INGOT_INVALID_INPUT, "a tensor has another number of strides than dims");
  }
  static Tensor zeros(ingot_dtype dtype, std::vector<int64_t> dims) {
    Tensor t(dtype, nullptr, std::move(dims));
    t.owned_ = std::make_shared<std::byte[]>(t.count() * size_of(dtype));
    t.data_ = t.owned_.get();
    return t;
  }

  ingot_dtype dtype() const { return dtype_; }
  void* data() const { return data_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  size_t count() const {
    size_t n = 1;
    for (int64_t d : dims_) n *= static_cast<size_t>(d);
    return n;
  }
  // The elements of a row-major tensor.
  template <class T>
  std::span<T> values() const {
    if (detail::dtype_of<T>() != dtype_ || !strides_.empty()) throw Error(INGOT_INVALID_INPUT, "the tensor's values are of another dtype, or not row-major");
    return {static_cast<T*>(data_), count()};
  }
  // For the C API; valid while this tensor lives.
  ingot_tensor view() const { return {data_, dtype_, static_cast<int32_t>(dims_.size()), dims_.data(), strides_.empty() ? nullptr : strides_.data()}; }

 private:
  ingot_dtype dtype_;
  void* data_;
  std::vector<int64_t> dims_, strides_;
  std::shared_ptr<std::byte[]> owned_;
};

class Options {
 public:
  Options() : handle_(detail::make<decltype(handle_)>(ingot_options_create)) {}
  Options& set(const std::string& name, const std::string& value) {
    detail::check(ingot_options_set(handle_.get(), name.c_str(), value.c_str()));
    return *this;
  }
  static std::string describe() { return detail::text(ingot_options_describe); }
  ingot_options* handle() const { return handle_.get(); }

 private:
  detail::Handle<ingot_options, ingot_options_release> handle_;
};

struct Binding {
  std::string name;
  ingot_dtype dtype;
  std::vector<int64_t> dims;   // at the usual sizes
  std::vector<uint8_t> order;  // axis order in memory, outermost first; empty = row-major. An input in this order is not copied
};

// For any number of threads at a time.
class Plan {
 public:
  explicit Plan(ingot_plan* handle) : handle_(handle) {}  // takes ownership
  static Plan load(const std::string& path, ingot_trust trust = INGOT_TRUST_AUTO, bool map = true) {
    return Plan(ingot_plan_load_with, path.c_str(), trust, static_cast<int>(map));
  }
  // A file that one of the keys has signed: see ingot_plan_load_signed.
  static Plan load_signed(const std::string& path, const std::vector<std::string>& keys) {
    std::vector<const char*> texts;
    for (const std::string& key : keys) texts.push_back(key.c_str());
    return Plan(ingot_plan_load_signed, path.c_str(), texts.data(), texts.size());
  }
  // The bytes must not change until the plan and everything made from it are destroyed.
  static Plan from_memory(std::span<const std::byte> bytes, ingot_trust trust = INGOT_TRUST_AUTO) { return Plan(ingot_plan_load_memory_with, bytes.data(), bytes.size(), trust); }
  void save(const std::string& path) const { detail::check(ingot_plan_save(handle_.get(), path.c_str())); }
  void verify() const { detail::check(ingot_plan_verify(handle_.get())); }
  std::array<uint8_t, 32> hash() const {
    std::array<uint8_t, 32> hash;
    detail::check(ingot_plan_hash(handle_.get(), hash.data()));
    return hash;
  }
  std::vector<Binding> inputs(uint32_t function = 0) const { return bindings(function, 0, ingot_plan_input); }
  std::vector<Binding> outputs(uint32_t function = 0) const { return bindings(function, 1, ingot_plan_output); }
  // Buffers that the function writes: see State.
  std::vector<Binding> states(uint32_t function = 0) const { return bindings(function, 2, ingot_plan_state); }
  std::string describe() const { return detail::text(ingot_plan_describe, handle_.get()); }
  std::string graph(uint32_t function = 0) const { return detail::text(ingot_plan_graph, handle_.get(), function); }
  std::string programs() const { return detail::text(ingot_plan_programs, handle_.get()); }
  // `target`: null for those of the plan.
  std::string offers(const char* target = nullptr) const { return detail::text(ingot_plan_offers, handle_.get(), target); }
  // [compiler] The error of each step against the reference interpreter, as JSON (docs/verify.md). `stop`: stops at the first step over its bound.
  std::string verify_steps(std::span<const Tensor> inputs, const Options& options = {}, double bound = 0, bool stop = false, uint32_t function = 0) const {
    std::vector<ingot_tensor> in;
    for (const Tensor& t : inputs) in.push_back(t.view());
    return detail::text(ingot_plan_verify_steps, handle_.get(), function, options.handle(), in.data(), in.size(), bound, static_cast<int>(stop));
  }
  ingot_plan* handle() const { return handle_.get(); }

 private:
  template <class Create, class... A>
  explicit Plan(Create create, A... arguments) : handle_(detail::make<decltype(handle_)>(create, arguments...)) {}
  std::vector<Binding> bindings(uint32_t function, size_t kind, decltype(ingot_plan_input)* get) const {
    size_t counts[3];
    detail::check(ingot_plan_count(handle_.get(), function, &counts[0], &counts[1]));
    detail::check(ingot_plan_state_count(handle_.get(), function, &counts[2]));
    std::vector<Binding> out;
    for (size_t i = 0; i < counts[kind]; ++i) {
      ingot_binding b;
      detail::check(get(handle_.get(), function, i, &b));
      out.push_back({b.name, b.dtype, {b.dims, b.dims + b.rank}, {b.order, b.order + (b.order != nullptr ? b.rank : 0)}});
    }
    return out;
  }

  detail::Handle<ingot_plan, ingot_plan_release> handle_;
};

// For any number of threads at a time.
class Weights {
 public:
  explicit Weights(const Plan& plan, const Options& options = {}) : handle_(detail::make<decltype(handle_)>(ingot_weights_create, plan.handle(), options.handle())) {}
  // Row-major values, copied to the weight's axis order.
  template <class T, size_t N>
  void set(const std::string& name, std::span<T, N> values) {
    detail::check(ingot_weights_set(handle_.get(), name.c_str(), values.data(), values.size_bytes(), nullptr, 1));
  }
  // Values with any strides in memory of the host or the device, read in place: the memory must outlive the weights.
  void borrow(const std::string& name, const Tensor& values) {
    const ingot_tensor view = values.view();
    detail::check(ingot_weights_set(handle_.get(), name.c_str(), view.data, values.count() * size_of(view.dtype), view.strides, 0));
  }
  void commit() { detail::check(ingot_weights_commit(handle_.get())); }
  // The number of their GPU; -1: the host.
  int32_t device() const {
    int32_t gpu;
    detail::check(ingot_weights_device(handle_.get(), &gpu));
    return gpu;
  }
  // A second set of weights with the values of the last commit; both share what is equal. Session::set_weights switches between them.
  Weights fork() const { return Weights(detail::make<Owner>(ingot_weights_fork, handle_.get())); }
  // The limit of GPU memory for the weights and one session's run (0: no limit, -1: nine tenths of the free memory), and the memory that they take.
  void set_memory(int64_t bytes) { detail::check(ingot_weights_set_memory(handle_.get(), bytes)); }
  ingot_memory memory() const {
    ingot_memory m{};
    detail::check(ingot_weights_memory(handle_.get(), &m));
    return m;
  }
  ingot_weights* handle() const { return handle_.get(); }

 private:
  using Owner = detail::Handle<ingot_weights, ingot_weights_release>;
  explicit Weights(Owner handle) : handle_(std::move(handle)) {}

  Owner handle_;
};

// The memory that a model writes, separate from sessions: an entry, by name, for each buffer and each input that it writes. A run takes an input without data
// from there. For any thread, one use at a time; a second one throws.
class State {
 public:
  using Sizes = std::vector<std::pair<std::string, int64_t>>;  // of dynamic axes of written inputs, by name; others have their usual sizes
  State(const Plan& plan, const Weights& weights, const Sizes& sizes = {})
      : handle_(detail::make<decltype(handle_)>(ingot_state_create_with, plan.handle(), weights.handle(), view(sizes).data(), sizes.size())) {}
  // Enlarges sizes: elements keep their indices, new ones are zero.
  void grow(const Sizes& sizes) { detail::check(ingot_state_grow(handle_.get(), view(sizes).data(), sizes.size())); }
  // The description of each entry.
  std::vector<Binding> entries() const {
    size_t count = 0;
    detail::check(ingot_state_count(handle_.get(), &count));
    std::vector<Binding> out;
    for (size_t i = 0; i < count; ++i) {
      ingot_binding b;
      detail::check(ingot_state_entry(handle_.get(), i, &b));
      out.push_back({b.name, b.dtype, {b.dims, b.dims + b.rank}, {}});
    }
    return out;
  }
  State fork() const { return State(detail::make<decltype(handle_)>(ingot_state_fork, handle_.get())); }
  void copy_from(const State& other) { detail::check(ingot_state_copy(handle_.get(), other.handle())); }
  void reset() { detail::check(ingot_state_reset(handle_.get())); }
  // Row-major values of the whole entry.
  template <class T, size_t N>
  void read(const std::string& name, std::span<T, N> into) const {
    detail::check(ingot_state_read(handle_.get(), name.c_str(), into.data(), into.size_bytes()));
  }
  template <class T, size_t N>
  void write(const std::string& name, std::span<T, N> values) {
    detail::check(ingot_state_write(handle_.get(), name.c_str(), values.data(), values.size_bytes()));
  }
  // Saves and loads all entries as a safetensors file; load() needs a state with the same entries.
  void save(const std::string& path) const { detail::check(ingot_state_save(handle_.get(), path.c_str())); }
  void load(const std::string& path) { detail::check(ingot_state_load(handle_.get(), path.c_str())); }
  // The tensor's memory must outlive its use. A tensor without data: the state's own memory again.
  void bind(const std::string& name, const Tensor& memory) {
    const ingot_tensor view = memory.view();
    detail::check(ingot_state_bind(handle_.get(), name.c_str(), &view));
  }
  // The entry in place, without a copy; valid until the state is destroyed or grows, or memory is bound to the entry.
  Tensor tensor(const std::string& name) const {
    ingot_tensor t;
    detail::check(ingot_state_tensor(handle_.get(), name.c_str(), &t));
    return Tensor(t.dtype, t.data, {t.dims, t.dims + t.rank}, t.strides != nullptr ? std::vector<int64_t>(t.strides, t.strides + t.rank) : std::vector<int64_t>());
  }
  ingot_state* handle() const { return handle_.get(); }

 private:
  using Owner = detail::Handle<ingot_state, ingot_state_release>;
  static std::vector<ingot_size> view(const Sizes& sizes) {
    std::vector<ingot_size> out;
    for (const auto& [name, value] : sizes) out.push_back({name.c_str(), value});
    return out;
  }
  explicit State(Owner handle) : handle_(std::move(handle)) {}

  Owner handle_;
};

// For one thread at a time; sessions of one plan run in parallel.
class Session {
 public:
  Session(const Plan& plan, const Weights& weights, uint32_t function = 0, const Options& options = {})
      : handle_(detail::make<decltype(handle_)>(ingot_session_create, plan.handle(), weights.handle(), function, options.handle())) {
    for (const Binding& b : plan.outputs(function)) {
      int open = 0;
      detail::check(ingot_plan_output_is_open(plan.handle(), function, outputs_.size(), &open));
      open_.push_back(open != 0);
      outputs_.push_back(b.dtype);
    }
  }
  // Dims of every output for inputs of these shapes. For sizes that the model reads from data, see ingot_session_resolve.
  std::vector<std::vector<int64_t>> resolve(std::span<const Tensor> inputs) {
    view(inputs, in_);
    detail::check(ingot_session_resolve(handle_.get(), in_.data(), in_.size()));
    std::vector<std::vector<int64_t>> out;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      int32_t rank;
      const int64_t* dims;
      detail::check(ingot_session_output(handle_.get(), i, &rank, &dims));
      out.emplace_back(dims, dims + rank);
    }
    return out;
  }
  // Writes to the caller's outputs. Allocates nothing after the first call at a size.
  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    view(inputs, in_);
    view(outputs, out_);
    detail::check(ingot_session_run_with(handle_.get(), in_.data(), in_.size(), out_.data(), out_.size()));
  }
  // Returns new outputs.
  std::vector<Tensor> run(std::span<const Tensor> inputs) {
    std::vector<Tensor> outputs;
    for (std::vector<int64_t>& dims : resolve(inputs)) {
      if (open_[outputs.size()]) dims.assign(dims.size(), 0);
      outputs.push_back(Tensor::zeros(outputs_[outputs.size()], std::move(dims)));
    }
    view(inputs, in_);
    view(outputs, out_);
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (open_[o]) out_[o].data = nullptr;
    }
    std::pair<Session*, std::vector<Tensor>*> late{this, &outputs};
    auto give = [](void* user, size_t output, const int64_t* dims, int32_t rank) -> void* {
      auto& [session, made] = *static_cast<std::pair<Session*, std::vector<Tensor>*>*>(user);
      try {
        (*made)[output] = Tensor::zeros(session->outputs_[output], {dims, dims + rank});
        return (*made)[output].data();
      } catch (const std::bad_alloc&) {
        return nullptr;
      }
    };
    detail::check(ingot_session_set_output_memory(handle_.get(), give, &late));
    const ingot_status status = ingot_session_run_with(handle_.get(), in_.data(), in_.size(), out_.data(), out_.size());
    ingot_session_set_output_memory(handle_.get(), nullptr, nullptr);
    detail::check(status);
    return outputs;
  }
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) { return run(std::span(inputs.begin(), inputs.size())); }
  // The GPU memory that the session's weights and runs take.
  ingot_memory memory() const {
    ingot_memory m{};
    detail::check(ingot_session_memory(handle_.get(), &m));
    return m;
  }
  // A fork of the session's weights, or the weights that they are a fork of. Resolved sizes are kept.
  void set_weights(const Weights& weights) { detail::check(ingot_session_set_weights(handle_.get(), weights.handle())); }
  // Sets the state that later runs write. own_state(): the session's own, the default.
  void set_state(const State& state) { detail::check(ingot_session_set_state(handle_.get(), state.handle())); }
  void own_state() { detail::check(ingot_session_set_state(handle_.get(), nullptr)); }
  // On a GPU: sets the caller's stream; waits for all runs.
  void set_stream(void* stream) { detail::check(ingot_session_set_stream(handle_.get(), stream)); }
  // Each run allocates its memory from there and frees it before it returns; see ingot_session_set_allocator.
  void set_allocator(const ingot_allocator& from) { detail::check(ingot_session_set_allocator(handle_.get(), &from)); }
  void wait() { detail::check(ingot_session_wait(handle_.get())); }
  ingot_session* handle() const { return handle_.get(); }

 private:
  static void view(std::span<const Tensor> tensors, std::vector<ingot_tensor>& out) {
    out.clear();
    for (const Tensor& t : tensors) out.push_back(t.view());
  }

  detail::Handle<ingot_session, ingot_session_release> handle_;
  std::vector<ingot_dtype> outputs_;
  std::vector<bool> open_;  // per output: its sizes are read from data
  std::vector<ingot_tensor> in_, out_;
};

// The library's lines for people go to `log`; nullptr: to standard error again.
inline void set_log(ingot_log log, void* user = nullptr) { detail::check(ingot_set_log(log, user)); }

// What profilers want called around the steps of later runs; nullptr: nothing.
inline void set_step_watch(const ingot_step_watch* watch) { detail::check(ingot_set_step_watch(watch)); }

inline std::string describe_machine() { return detail::text(ingot_describe_machine); }

// [compiler] A captured model, to be compiled to a plan.
class Model {
 public:
  static Model open(const std::string& path) { return Model(ingot_model_open, path.c_str()); }
  // The weights' data must outlive the model and every plan made from it.
  static Model from_memory(std::string_view json, std::span<const ingot_weight_source> weights) {
    return Model(ingot_model_from_memory, json.data(), json.size(), weights.data(), weights.size());
  }
  Model& set_dim(const std::string& input, int64_t axis, int64_t min, int64_t opt, int64_t max, const std::string& name = {}) {
    detail::check(ingot_model_set_dim(handle_.get(), input.c_str(), axis, min, opt, max, name.c_str()));
    return *this;
  }
  std::string describe() const { return detail::text(ingot_model_describe, handle_.get()); }
  ingot_model* handle() const { return handle_.get(); }

 private:
  template <class Create, class... A>
  explicit Model(Create create, A... arguments) : handle_(detail::make<decltype(handle_)>(create, arguments...)) {}

  detail::Handle<ingot_model, ingot_model_release> handle_;
};

// [compiler] `progress` gets the current stage and the fraction done. It cancels by returning false, or by an exception, which is rethrown here.
inline Plan compile(const Model& model, const Options& options = {}, std::function<bool(std::string_view stage, double fraction)> progress = {}) {
  struct Report {
    std::function<bool(std::string_view, double)> tell;
    std::exception_ptr thrown;
  } report{std::move(progress), nullptr};
  ingot_progress call = [](const char* stage, double fraction, void* user) {
    auto* r = static_cast<Report*>(user);
    try {
      return r->tell(stage, fraction) ? 0 : 1;
    } catch (...) {
      r->thrown = std::current_exception();
      return 1;
    }
  };
  ingot_plan* plan = nullptr;
  ingot_status status = ingot_compile(model.handle(), options.handle(), report.tell ? call : nullptr, &report, &plan);
  if (report.thrown) std::rethrow_exception(report.thrown);
  detail::check(status);
  return Plan(plan);
}

}  // namespace ingot

#endif
