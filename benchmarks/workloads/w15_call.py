"""W15: calls of a language model that answers at once. An operation is one call; its time is the tool's own work.

Each agent asks `times` times, and every answer is kept as the tool keeps it: `sim` records the whole run on disk,
LangGraph has its checkpointer in memory, Concordia has the log of its agent.
"""

from typing import Any

from benchmarks.models import run
from benchmarks.workload import Meter, Workload

W15 = Workload("W15", "calls of a model that answers at once", (10,), bases=("langgraph", "concordia"))

_QUESTION = "Do you agree?"

_SCENARIO = """\
name: model
until: {times}s
models: {{provider: scripted, rules: [{{say: "yes"}}]}}
agents:
  - name: person
    count: {agents}
    loop: {{min_loop_delay: 1s}}
    rules: [{{do: {{ask: {{prompt: "Do you agree?"}}}}}}]
"""


@W15.peer("sim, yaml", speed=3_000)
def rules(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Agents with one rule that asks, recorded whole."""
    run(meter, _SCENARIO.format(agents=agents, times=times), "all", {})


@W15.peer("langgraph", needs="langgraph.graph", speed=400)
def langgraph(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """A graph of one node that asks; each agent is a thread of the checkpointer."""
    from importlib import import_module
    from typing import TypedDict

    class State(TypedDict):
        prompt: str
        answer: str

    graph = lib.StateGraph(State)
    graph.add_node("ask", lambda state: {"answer": "yes"})
    graph.add_edge(lib.START, "ask")
    graph.add_edge("ask", lib.END)
    app = graph.compile(checkpointer=import_module("langgraph.checkpoint.memory").InMemorySaver())
    meter.begin()
    for _ in range(times):
        for number in range(agents):
            app.invoke({"prompt": _QUESTION}, {"configurable": {"thread_id": str(number)}})
    meter.end(agents * times)


@W15.peer("concordia", needs="concordia.prefabs.entity.minimal", speed=400)
def concordia(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Entities of the prefab with the fewest parts; each act is one call."""
    from importlib import import_module

    numpy = import_module("numpy")
    typing = import_module("concordia.typing.entity")
    memory = import_module("concordia.associative_memory.basic_associative_memory")
    asked = 0

    class Model(import_module("concordia.language_model.no_language_model").NoLanguageModel):  # type: ignore[misc]
        def sample_text(self, prompt: str, **options: Any) -> str:
            nonlocal asked
            asked += 1
            return "yes"

    model, vector = Model(), numpy.ones(3)
    people = [
        lib.Entity(params={"name": f"Person {number}", "goal": "", "extra_components": {}}).build(
            model=model, memory_bank=memory.AssociativeMemoryBank(sentence_embedder=lambda text: vector)
        )
        for number in range(agents)
    ]
    question = typing.free_action_spec(call_to_action=_QUESTION)
    meter.begin()
    for _ in range(times):
        for person in people:
            person.act(question)
    meter.end(asked)
