// SPDX-License-Identifier: Apache-2.0
// codetta::Epilogue.
#include "codetta/epilogue.hpp"

#include "base/default_floats.hpp"
#include "base/result.hpp"
#include "frontend/lower.hpp"
#include "frontend/trace_node.hpp"

namespace codetta {

Result<Epilogue> Epilogue::parse(std::string text, std::string name, std::string_view function) {
  const base::DefaultFloats floats;
  const auto source = std::make_shared<const diag::SourceText>(std::move(name), std::move(text));
  CODETTA_TRY(auto parsed, frontend::parse_epilogue(source, function));
  return Epilogue(std::make_shared<const ir::EpilogueFunction>(std::move(parsed)));
}

Result<Epilogue> Epilogue::finish(const EpilogueTracer& tracer, CallSite at) {
  const base::DefaultFloats floats;
  CODETTA_TRY(auto traced, frontend::trace_epilogue(*detail::TraceAccess::state(tracer), at));
  return Epilogue(std::make_shared<const ir::EpilogueFunction>(std::move(traced)));
}

const std::string& Epilogue::name() const { return function_->name; }

std::vector<std::string> Epilogue::parameters() const {
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : function_->parameters) names.push_back(parameter.name);
  return names;
}

std::vector<std::string> Epilogue::outputs() const {
  std::vector<std::string> names;
  for (const ir::Output& output : function_->outputs) names.push_back(output.name);
  return names;
}

std::string Epilogue::to_string() const { return ir::print(*function_); }

}  // namespace codetta
