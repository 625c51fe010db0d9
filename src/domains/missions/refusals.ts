/** The refusals of missions: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const missionRefusals = {
  'missions.mission.not_found': ['not_found', 'GET /missions lists them.'],
  'missions.mission.wrong_state': [
    'conflict',
    'Read `facts.mission`: its `next` says what can happen now, and who can do it.',
  ],
  'missions.action.not_allowed': ['forbidden', 'Ask the requester of the mission, or an administrator.'],
  'missions.task.not_found': ['not_found', 'Take the id from the claim, or from the tasks of the mission.'],
  'missions.task.wrong_state': ['conflict', 'Read `facts.state`: the call does not fit this state of the task.'],
  'missions.hook.failed': [
    'conflict',
    'Read the command of the hook. Correct its cause, then fork the mission from this task.',
  ],
  'missions.lease.stale': ['conflict', 'Stop the work and claim again. Another worker may have the task.'],
  'missions.output.artifact_unknown': ['invalid', 'Name an artifact of this workspace, or leave the field out.'],
  'missions.card.not_found': ['not_found', 'GET /board shows the cards.'],
  'missions.output.changed': ['conflict', 'Ask for another attempt of the task whose output has changed.'],
  'missions.verdict.own_output': ['forbidden', 'Let another worker verify it: one with another name, or another key.'],
  'missions.report.not_written': ['conflict', 'Read it after the end of the mission.'],
  'missions.plan.invalid': ['invalid', 'Correct every finding in `facts.findings`, then send the plan again.'],
  'missions.plan.stale': ['conflict', 'Read the plan again, apply the change to it, and send it with `facts.version`.'],
  'missions.plan.started': ['conflict', 'Only add tasks to a mission that runs. A fork can change those that exist.'],
  'missions.plan.not_approved': ['forbidden', 'Fork the mission with the new plan after its end: its start asks them.'],
  'missions.config.invalid': ['invalid', 'Correct the named setting. docs/guides/missions.md lists the settings.'],
  'missions.request.invalid': ['invalid', 'Send a goal, and a plan or the id of a recipe.'],
  'missions.request.too_deep': [
    'invalid',
    'Start it from a mission that is less deep, or remove the task that runs it.',
  ],
  'missions.fork.open': ['conflict', 'Wait for its end, or cancel it.'],
  'missions.fork.unknown_task': ['invalid', 'Name a task of the plan by its temp_id.'],
  'missions.fork.effects_stand': ['conflict', 'Name their tasks in `refire`, or undo the effects first.'],
  'missions.recipe.not_found': ['not_found', 'GET /recipes lists them.'],
  'missions.recipe.not_completed': ['conflict', 'Save it after its end. Only a completed mission becomes a recipe.'],
  'missions.recipe.variables': ['invalid', 'Give a value for each of `facts.variables`, and no others.'],
  'missions.recipe.too_large': ['invalid', 'Send a shorter value, or remove places of the variable from the recipe.'],
  'missions.budget.invalid': ['invalid', 'Send an amount such as "20.00".'],
  'missions.budget.fixed': [
    'conflict',
    'Read `facts.mission`. The limit of a mission that runs or stands can be raised.',
  ],
  'missions.budget.too_low': ['conflict', 'Send a limit above the cost and above the limit in `facts.mission.budget`.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    missions: typeof missionRefusals
  }
}
