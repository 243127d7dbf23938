// SPDX-License-Identifier: Apache-2.0
// What steps of branches and loops should make: each time that a branch or a turn begins, its graph is evaluated over
// what the run holds in the graph's inputs by then, so that a turn is not blamed for what an earlier one has left.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/host_copy.hpp"
#include "driver/step_records.hpp"
#include "oracle/oracle.hpp"

namespace codetta::driver {

// Which value of a graph a step leaves in a buffer: by step and name of the buffer the place among `outputs`.
struct AskedValues {
  std::vector<std::pair<ir::NodeId, DType>> outputs;  // and the type that it is stored as
  std::map<std::pair<std::string, std::string>, size_t> of_step;
};
// What kernels of a list store, where one launch writes a value whole or the last of several does.
AskedValues asked_values(const package::StepList& steps, const plan::Plan& plan, const package::Package& package,
                         const StepRecords& records);
// The graph with these as further outputs, in their order. Errors: those of GraphBuilder::finish.
Result<ir::Graph> with_values(const ir::Graph& graph, const AskedValues& asked);

// Follows one run. All that it is made from lives as long.
class NestedValues {
 public:
  // `inputs`: of the program, in its order, as they are before the run. `how` has all sizes that are known by then;
  // those that values give are read when the run defines them. Errors: those of with_values; E0606.
  static Result<NestedValues> make(const plan::Plan& plan, const package::Package& package, const StepRecords& records,
                                   const ir::Graph& program, const std::vector<oracle::OracleInput>& inputs,
                                   oracle::OracleOptions how);
  // A step of the run, in order, with what it has written. Errors: E0606.
  Result<void> see(const StepRecord& record);
  // Of the step that was seen last, which is in a branch or a loop: the value that it should have made, or null.
  [[nodiscard]] const oracle::ExpectedOutput* expected(const StepRecord& record, const std::string& name) const;
  // Why there is none of any, as far as that is known.
  [[nodiscard]] std::string unknown(const StepRecord& record) const;
  // Of the loops around it, from the outermost in: the turn that runs.
  [[nodiscard]] std::vector<int64_t> turns(const StepRecord& record) const;

 private:
  struct Parent {
    std::optional<size_t> list;  // none: the main list
    size_t index = 0;
    bool loop = false;
    std::vector<size_t> children{};  // with this list: they run by turns
  };
  struct List {
    std::optional<Parent> parent;  // none: of the main list
    bool runs = false;
    size_t next = 0;   // step that has not been reached
    int64_t turn = 0;  // of a loop that runs: the first is 1
    AskedValues asked{};
    std::optional<ir::Graph> graph{};
    std::vector<oracle::ExpectedOutput> values{};
    std::string unknown{};
  };
  struct Held {
    HostCopies memory{nullptr};
    TensorView view;
  };
  NestedValues(const package::Package& package, const StepRecords& records, oracle::OracleOptions how)
      : package_(&package), records_(&records), how_(std::move(how)) {}
  [[nodiscard]] const package::StepList& steps_of(std::optional<size_t> list) const;
  List& state(std::optional<size_t> list) { return list ? lists_[*list] : main_; }
  void find_parents(std::optional<size_t> list);
  void find_sources();
  void find_wanted();
  Result<void> hold(uint32_t buffer, const TensorView& view);
  void forget(uint32_t buffer);
  Result<void> write_through(uint32_t buffer, const TensorView& view);
  void reach(std::optional<size_t> list, size_t index);
  void begin(size_t list);
  void pass(const package::Step& step);
  void learn_size(const package::DefineSymbol& step);
  void forget_sizes_of(size_t list);
  void evaluate(List& list, const std::vector<uint32_t>& inputs);
  [[nodiscard]] std::optional<Dims> known_sizes(const std::vector<types::Dim>& dims) const;
  [[nodiscard]] std::optional<TensorView> view_of(uint32_t buffer, int depth = 0) const;
  [[nodiscard]] bool ends_lists(std::optional<size_t> list, size_t index);

  const package::Package* package_;
  const StepRecords* records_;
  oracle::OracleOptions how_;
  List main_{};
  std::vector<List> lists_;
  std::vector<std::vector<uint32_t>> inputs_;    // by list
  std::map<uint32_t, uint32_t> source_of_;       // by buffer that lies where another one does: that one
  std::vector<bool> wanted_;                     // by buffer: some list begins with it, or a size is read there
  std::map<uint32_t, Held> held_;                // by buffer
  std::map<uint32_t, uint32_t> view_of_buffer_;  // source_of_ of those whose step is passed
};

}  // namespace codetta::driver
