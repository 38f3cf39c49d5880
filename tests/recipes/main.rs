//! The recipes that are no locks and have no program of their own: leaders, barriers, counters, shared values and
//! discovery; and the recipes for threads.

mod barriers;
mod blocking_recipes;
mod counters;
mod discovery;
mod double_barrier;
mod leader;
mod leader_scenarios;
mod leader_selector;
mod shared_values;
