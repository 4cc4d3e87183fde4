// Recurrent layers, as their steps one after another: each step is a matrix product and the pointwise work after it. Where the number of steps is open or large, a loop runs them.
#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

// More steps than this make a plan whose build takes minutes: then a loop runs them.
constexpr int64_t max_unrolled_steps = 2048;

// What a layer computes, in the arguments that torch's operators share.
struct Form {
  bool biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional, batch_first;
};

// One direction of one layer.
struct Cell {
  Value from_input, from_hidden;
  std::optional<Value> input_bias, hidden_bias, projection;
};

// What goes from step to step: the hidden state and, for an LSTM, the cell state.
using State = std::vector<Value>;
// The next state, from the step's row of `input` (the matrix product of the layer's input, with its bias) and the state before.
using Step = State (*)(const Cell&, const Value& input, const State& before);

Value times(const Value& x, const Value& w) { return matmul(x, transpose(w, 0, 1)); }
Value with_bias(const Value& x, const std::optional<Value>& bias) { return bias ? x + *bias : x; }
// The n-th of `count` equal parts of the last axis.
Value part(const Value& x, int64_t n, int64_t count) {
  const Dim size = floordiv(x.dim(-1), count);
  return slice(x, -1, size * n, size * (n + 1), 1);
}

// The hidden state and the cell state, from the sums of the four gates.
State lstm_of_gates(const Value& gates, const Value& before) {
  auto gate = [&](int64_t n) { return part(gates, n, 4); };
  const Value state = sigmoid(gate(1)) * before + sigmoid(gate(0)) * tanh(gate(2));
  return {sigmoid(gate(3)) * tanh(state), state};
}

Value gru_of_gates(const Value& input, const Value& hidden, const Value& before) {
  auto gate = [&](int64_t n) { return sigmoid(part(input, n, 3) + part(hidden, n, 3)); };
  const Value fresh = tanh(part(input, 2, 3) + gate(0) * part(hidden, 2, 3));
  return fresh + gate(1) * (before - fresh);
}

State lstm_step(const Cell& cell, const Value& input, const State& before) {
  State next = lstm_of_gates(input + with_bias(times(before[0], cell.from_hidden), cell.hidden_bias), before[1]);
  if (cell.projection) next[0] = times(next[0], *cell.projection);
  return next;
}

State gru_step(const Cell& cell, const Value& input, const State& before) {
  return {gru_of_gates(input, with_bias(times(before[0], cell.from_hidden), cell.hidden_bias), before[0])};
}

State tanh_step(const Cell& cell, const Value& input, const State& before) { return {tanh(input + with_bias(times(before[0], cell.from_hidden), cell.hidden_bias))}; }
State relu_step(const Cell& cell, const Value& input, const State& before) { return {relu(input + with_bias(times(before[0], cell.from_hidden), cell.hidden_bias))}; }

// All steps as a loop. Each turn writes its row of the output.
Value looped(const Cell& cell, Step step, const Value& input, State& state, bool backward) {
  const Dim steps = input.dim(0);
  Dims rows = state[0].dims();
  rows.insert(rows.begin(), steps);
  std::vector<Value> carried = state, others{input, cell.from_hidden};
  carried.push_back(full(input.graph(), rows, 0, state[0].dtype()));
  for (const std::optional<Value>* part : {&cell.hidden_bias, &cell.projection}) {
    if (*part) others.push_back(**part);
  }
  std::vector<Value> last = repeat(input.graph(), steps, carried, others, [&](const Value& turn, const std::vector<Value>& now, const std::vector<Value>& given) {
    auto next = given.begin() + 1;
    Cell inside{cell.from_input, *next++, {}, {}, {}};
    if (cell.hidden_bias) inside.hidden_bias = *next++;
    if (cell.projection) inside.projection = *next++;
    const Value t = backward ? -turn + Operand(steps - Dim(1)) : turn;
    State made = step(inside, gather(given[0], {0}, {t}, 0, false), State(now.begin(), now.end() - 1));
    made.push_back(scatter(now.back(), {0}, {t}, 0, false, made[0], "set"));
    return made;
  });
  state.assign(last.begin(), last.end() - 1);
  return last.back();
}

// All steps of one direction over `x` [time, batch, features]: the hidden states in the order of `x`. `state` becomes the last one. `layers`: how many times a call does this.
Value direction(const Cell& cell, Step step, const Value& x, State& state, bool backward, int64_t layers) {
  require(x.graph(), Dim(1), ir::Check::less_equal, x.dim(0), "a recurrent layer has steps");
  const Value input = with_bias(times(x, cell.from_input), cell.input_bias);
  const auto known = x.dim(0).constant();
  if (!known || *known * layers > max_unrolled_steps) return looped(cell, step, input, state, backward);
  const int64_t steps = *known;
  std::vector<Value> hidden(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = backward ? steps - 1 - i : i;
    state = step(cell, take(input, 0, t), state);
    hidden[static_cast<size_t>(t)] = unsqueeze(state[0], 0);
  }
  return steps == 1 ? hidden[0] : concat(std::move(hidden), 0);
}

// All layers. `first` has the state before the first step, one tensor [layers * directions, batch, size] for each part of the state. The results are the output, then the last states.
std::vector<Value> recurrent(Value x, const State& first, const std::vector<Value>& params, const Form& form, Step step, bool projects = false) {
  if (form.train && form.dropout > 0 && form.layers > 1) fail(Code::unsupported, "dropout between recurrent layers in training mode (call model.eval() first)");
  if (form.batch_first) x = transpose(x, 0, 1);
  const int64_t directions = form.bidirectional ? 2 : 1, for_each = 2 + (form.biases ? 2 : 0) + (projects ? 1 : 0);
  if (static_cast<int64_t>(params.size()) != form.layers * directions * for_each) fail(Code::invalid_input, "{} weights for {} recurrent layers", params.size(), form.layers);
  std::vector<std::vector<Value>> last(first.size());
  auto given = params.begin();
  for (int64_t n = 0; n < form.layers * directions; n += directions) {
    std::vector<Value> sides;
    for (int64_t d = 0; d < directions; ++d) {
      Cell cell{*given++, *given++, {}, {}, {}};
      if (form.biases) cell.input_bias = *given++, cell.hidden_bias = *given++;
      if (projects) cell.projection = *given++;
      State state;
      for (const Value& part : first) state.push_back(take(part, 0, n + d));
      sides.push_back(direction(cell, step, x, state, d == 1, form.layers * directions));
      for (size_t i = 0; i < state.size(); ++i) last[i].push_back(unsqueeze(state[i], 0));
    }
    x = directions == 1 ? sides[0] : concat(std::move(sides), -1);
  }
  std::vector<Value> out{form.batch_first ? transpose(x, 0, 1) : x};
  for (std::vector<Value>& states : last) out.push_back(concat(std::move(states), 0));
  return out;
}

using Values = std::vector<Value>;
using Bias = std::optional<Value>;

// One step of one layer, as torch.nn.LSTMCell and the like.
State one_step(Value x, const State& before, Value from_input, Value from_hidden, Bias input_bias, Bias hidden_bias, Step step) {
  const Cell cell{from_input, from_hidden, input_bias, hidden_bias, {}};
  return step(cell, with_bias(times(x, from_input), input_bias), before);
}

// Which layer an operator of a library computes, by its number.
Step step_of(int64_t mode) {
  constexpr Step steps[] = {relu_step, tanh_step, lstm_step, gru_step};
  if (mode < 0 || mode >= std::ssize(steps)) fail(Code::invalid_input, "a recurrent layer of mode {}", mode);
  return steps[mode];
}
bool has_cell_state(int64_t mode) { return step_of(mode) == lstm_step; }

// In the place of results that only training reads.
Value unread(const Value& x) { return full(x.graph(), {}, false, DType::b8); }

// cuDNN's and MIOpen's layers: the output, the last hidden and cell states, and what training reads.
Values library_layers(const Value& x, const Values& weights, int64_t weights_each, const Value& hidden, const Bias& cell, int64_t mode, bool projects, const Dims& batch_sizes,
                      Form form) {
  if (!batch_sizes.empty()) fail(Code::unsupported, "a recurrent layer of packed sequences");
  form.biases = weights_each > (projects ? 3 : 2);
  State first{hidden};
  if (cell && has_cell_state(mode)) first.push_back(*cell);
  Values results = recurrent(x, first, weights, form, step_of(mode), projects);
  if (results.size() < 3) results.push_back(full(x.graph(), {Dim(0)}, 0, x.dtype()));
  results.insert(results.end(), 2, unread(x));
  return results;
}

// One direction of one layer, as oneDNN has it: weights and states of that direction alone. Results: the output, the last states and what training reads.
Values one_direction(const Value& given, Values weights, const Value& hidden, const Value& cell, bool backward, int64_t mode, bool biases, bool batch_first) {
  const Value x = batch_first ? transpose(given, 0, 1) : given;
  Cell layer{weights[0], weights[1], {}, {}, {}};
  if (biases) layer.input_bias = weights[2], layer.hidden_bias = weights[3];
  State state{take(hidden, 0, 0)};
  if (has_cell_state(mode)) state.push_back(take(cell, 0, 0));
  const Value y = direction(layer, step_of(mode), x, state, backward, 1);
  return {batch_first ? transpose(y, 0, 1) : y, unsqueeze(state[0], 0), state.size() > 1 ? unsqueeze(state[1], 0) : full(x.graph(), {Dim(0)}, 0, x.dtype()), unread(x)};
}

const Definition recurrent_rows[] = {
    {"lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first)", Types::same,
     [](Value x, Values hx, Values params, bool biases, int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
       if (hx.size() != 2) fail(Code::invalid_input, "lstm: {} first states", hx.size());
       const bool projects = !(hx[0].dim(2) == hx[1].dim(2));
       return recurrent(x, hx, params, {biases, layers, dropout, train, bidirectional, batch_first}, lstm_step, projects);
     }},
    {"gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first)", Types::same,
     [](Value x, Value hx, Values params, bool biases, int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
       return recurrent(x, {hx}, params, {biases, layers, dropout, train, bidirectional, batch_first}, gru_step);
     }},
    {"rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first)", Types::same,
     [](Value x, Value hx, Values params, bool biases, int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
       return recurrent(x, {hx}, params, {biases, layers, dropout, train, bidirectional, batch_first}, tanh_step);
     }},
    {"rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first)", Types::same,
     [](Value x, Value hx, Values params, bool biases, int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
       return recurrent(x, {hx}, params, {biases, layers, dropout, train, bidirectional, batch_first}, relu_step);
     }},
    {"lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)", Types::same,
     [](Value x, Values hx, Value w, Value v, Bias b, Bias c) {
       if (hx.size() != 2) fail(Code::invalid_input, "lstm_cell: {} first states", hx.size());
       return one_step(x, hx, w, v, b, c, lstm_step);
     }},
    {"gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)", Types::same,
     [](Value x, Value hx, Value w, Value v, Bias b, Bias c) { return one_step(x, {hx}, w, v, b, c, gru_step)[0]; }},
    {"rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)", Types::same,
     [](Value x, Value hx, Value w, Value v, Bias b, Bias c) { return one_step(x, {hx}, w, v, b, c, tanh_step)[0]; }},
    {"rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)", Types::same,
     [](Value x, Value hx, Value w, Value v, Bias b, Bias c) { return one_step(x, {hx}, w, v, b, c, relu_step)[0]; }},
    // The forms of the libraries that torch calls on each device.
    {"_thnn_fused_lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias=None, Tensor? hidden_bias=None)", Types::same,
     [](Value input, Value hidden, Value before, Bias b, Bias c) {
       State next = lstm_of_gates(with_bias(input, b) + with_bias(hidden, c), before);
       next.push_back(unread(input));
       return next;
     }},
    {"_thnn_fused_gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor hx, Tensor? input_bias=None, Tensor? hidden_bias=None)", Types::same,
     [](Value input, Value hidden, Value before, Bias b, Bias c) { return std::pair(gru_of_gates(with_bias(input, b), with_bias(hidden, c), before), unread(input)); }},
    {"_cudnn_rnn(Tensor input, Tensor[] weight, int weight_stride0, Tensor? weight_buf, Tensor hx, Tensor? cx, int mode, SymInt hidden_size, SymInt proj_size, int num_layers, "
     "bool "
     "batch_first, float dropout, bool train, bool bidirectional, SymInt[] batch_sizes, Tensor? dropout_state)",
     Types::each,
     [](Value x, Values weights, int64_t each, Bias, Value h, Bias c, int64_t mode, Dim, Dim projection, int64_t layers, bool batch_first, double dropout, bool train,
        bool bidirectional, Dims batch_sizes,
        Bias) { return library_layers(x, weights, each, h, c, mode, !(projection == Dim(0)), batch_sizes, {false, layers, dropout, train, bidirectional, batch_first}); }},
    {"miopen_rnn(Tensor input, Tensor[] weight, int weight_stride0, Tensor hx, Tensor? cx, int mode, int hidden_size, int num_layers, bool batch_first, float dropout, bool train, "
     "bool bidirectional, int[] batch_sizes, Tensor? dropout_state)",
     Types::each,
     [](Value x, Values weights, int64_t each, Value h, Bias c, int64_t mode, int64_t, int64_t layers, bool batch_first, double dropout, bool train, bool bidirectional,
        Dims batch_sizes, Bias) { return library_layers(x, weights, each, h, c, mode, false, batch_sizes, {false, layers, dropout, train, bidirectional, batch_first}); }},
    {"mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor hx_, Tensor cx_, bool reverse, int[] batch_sizes, int mode, int "
     "hidden_size, int num_layers, bool has_biases, bool bidirectional, bool batch_first, bool train)",
     Types::same,
     [](Value x, Value w, Value v, Value b, Value c, Value h, Value cell, bool backward, Dims batch_sizes, int64_t mode, int64_t, int64_t layers, bool biases, bool bidirectional,
        bool batch_first, bool) {
       if (!batch_sizes.empty() || layers != 1 || bidirectional) fail(Code::unsupported, "mkldnn_rnn_layer of packed sequences or several layers");
       return one_direction(x, {w, v, b, c}, h, cell, backward, mode, biases, batch_first);
     }},
};

}  // namespace

std::span<const Definition> recurrent_definitions() { return recurrent_rows; }

}  // namespace ingot::ops
