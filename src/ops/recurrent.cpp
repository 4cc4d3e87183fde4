// Recurrent layers, as their steps one after another: each step is a matrix product and the pointwise work behind it. torch.export fixes the number of steps.
#include "base/error.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

// More steps than this make a plan whose export and build take minutes.
constexpr int64_t most_steps = 2048;

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

State lstm_step(const Cell& cell, const Value& input, const State& before) {
  const Value gates = input + with_bias(times(before[0], cell.from_hidden), cell.hidden_bias);
  auto gate = [&](int64_t n) { return part(gates, n, 4); };
  const Value state = sigmoid(gate(1)) * before[1] + sigmoid(gate(0)) * tanh(gate(2));
  const Value hidden = sigmoid(gate(3)) * tanh(state);
  return {cell.projection ? times(hidden, *cell.projection) : hidden, state};
}

State gru_step(const Cell& cell, const Value& input, const State& before) {
  const Value hidden = with_bias(times(before[0], cell.from_hidden), cell.hidden_bias);
  auto gate = [&](int64_t n) { return sigmoid(part(input, n, 3) + part(hidden, n, 3)); };
  const Value fresh = tanh(part(input, 2, 3) + gate(0) * part(hidden, 2, 3));
  return {fresh + gate(1) * (before[0] - fresh)};
}

State tanh_step(const Cell& cell, const Value& input, const State& before) { return {tanh(input + with_bias(times(before[0], cell.from_hidden), cell.hidden_bias))}; }
State relu_step(const Cell& cell, const Value& input, const State& before) { return {relu(input + with_bias(times(before[0], cell.from_hidden), cell.hidden_bias))}; }

// All steps of one direction over `x` [time, batch, features]: the hidden states in the order of `x`. `state` becomes the last one.
Value direction(const Cell& cell, Step step, const Value& x, State& state, bool backward) {
  const Value input = with_bias(times(x, cell.from_input), cell.input_bias);
  const int64_t steps = x.dim(0).value();
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
  const auto steps = x.dim(0).constant();
  if (!steps) fail(Code::unsupported, "a recurrent layer over a number of steps that is open");
  if (*steps * form.layers * directions > most_steps) fail(Code::unsupported, "a recurrent layer of more than {} steps in all", most_steps);
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
      sides.push_back(direction(cell, step, x, state, d == 1));
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

const Definition definitions[] = {
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
};

}  // namespace

std::span<const Definition> recurrent_definitions() { return definitions; }

}  // namespace ingot::ops
