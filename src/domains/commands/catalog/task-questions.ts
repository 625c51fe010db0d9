/**
 * The questions that a task must answer before it is registered: twelve of every task, ten more of an agentic task and eighteen more of a
 * swarm. Each gap is reported under the name of its question. Pure.
 */
import { canMove } from '#kernel/machine'
import { commandMachine } from '#kernel/machines/command'
import { joinStrategies } from '#kernel/machines/agent'
import { quote } from '#kernel/refusal'
import type { CommandType, TaskSpec } from './definitions.ts'
import { hasPrimitive, type Primitive } from './primitives.ts'
import {
  type CatalogFinding,
  findWrongValues,
  flag,
  isName,
  isObject,
  type FieldKind,
  oneOf,
  type FieldKinds,
} from './shape-checks.ts'

/** Returns the gap, or false. */
type Question = (task: TaskSpec, type: CommandType | undefined) => string | false

const does = (type: CommandType | undefined, primitive: Primitive) => hasPrimitive(type?.side_effects ?? [], primitive)

export const mappingQuestions = {
  ingress: ({ ingress_types }) => ingress_types.length === 0 && 'ingress_types is empty, so nothing can submit it',
  command: ({ command_type }, type) => !type && `the command type ${quote(command_type)} is not registered`,
  context: (_, type) => type?.cancellable_by.length === 0 && 'cancellable_by is empty, so no one can cancel it',
  policy_checks: ({ policy_checks }, type) =>
    policy_checks.length === 0 &&
    (type?.policies ?? []).length === 0 &&
    'no policy is checked, so every command is denied',
  sync_or_async: ({ sync_allowed, async_required }) =>
    !sync_allowed && !async_required && 'neither sync_allowed nor async_required is set, so it runs async',
  approval: ({ risk_level, approval_required }, type) =>
    risk_level === 'high' && !approval_required && !type?.approval.required && 'a task of high risk needs an approval',
  connector: ({ connector_requirements }, type) => {
    const missing = connectorsOf(type).filter((name) => !connector_requirements.includes(name))
    return missing.length > 0 && `connector_requirements lacks ${missing.map(quote).join(', ')}`
  },
  artifacts: ({ artifact_output_possible }, type) =>
    does(type, 'artifact_write') &&
    !artifact_output_possible &&
    'it writes artifacts, but artifact_output_possible is false',
  memory: ({ memory_write_possible }, type) =>
    does(type, 'memory_write') && !memory_write_possible && 'it writes memory, but memory_write_possible is false',
  notification: ({ notification_required }, type) =>
    does(type, 'notification') && !notification_required && 'it notifies, but notification_required is false',
  state_lifecycle: ({ metadata }) => findBrokenStep(metadata['lifecycle']) ?? false,
  audit_events: (_, type) => type?.audit.length === 0 && 'audit is empty, so no event has to be recorded',
} as const satisfies Readonly<Record<string, Question>>

/** A gap in these is a warning: the task runs with a default. */
const defaulted: readonly string[] = ['sync_or_async']

type Gap = { readonly question: string; readonly message: string }

export function findMappingGaps(task: TaskSpec, type: CommandType | undefined): readonly Gap[] {
  return Object.entries<Question>(mappingQuestions).flatMap(([question, find]) => {
    const message = find(task, type)
    return message === false ? [] : [{ question, message }]
  })
}

/** `connector.hotel_booking.book_hotel` calls the connector `hotel_booking`. */
function connectorsOf(type: CommandType | undefined): readonly string[] {
  const effects = (type?.side_effects ?? []).filter((effect) => effect.startsWith('connector.'))
  return [...new Set(effects.map((effect) => effect.split('.')[1] ?? ''))]
}

/** A declared lifecycle must be a path of the command machine from its initial state. */
export function findBrokenStep(lifecycle: unknown): string | undefined {
  if (lifecycle === undefined) return undefined
  if (!Array.isArray(lifecycle) || !lifecycle.every((state) => typeof state === 'string'))
    return 'lifecycle is not a list of states'
  const states = lifecycle as readonly string[]
  if (states[0] !== commandMachine.initial) return `lifecycle does not start with ${commandMachine.initial}`
  const at = states.findIndex((state, index) => index > 0 && !canMove(commandMachine, states[index - 1] ?? '', state))
  return at === -1 ? undefined : `lifecycle: ${states[at - 1]} does not go to ${quote(states[at] ?? '')}`
}

const isNames = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every(isName)

const text: FieldKind = { is: isName, words: 'a text' }
/** An empty list is an answer, a missing one is not. */
const names: FieldKind = { is: isNames, words: 'a list of names, empty for none' }
const some: FieldKind = { is: (value) => isNames(value) && value.length > 0, words: 'a list with at least one name' }
const count: FieldKind = {
  is: (value) => Number.isSafeInteger(value) && Number(value) >= 0,
  words: 'a whole number from 0',
}
const perRole: FieldKind = {
  is: (value, { allowed_roles: roles }) =>
    isObject(value) && (!isNames(roles) || roles.every((role) => isNames(value[role]))),
  words: 'an object with a list of names for every allowed role',
}

export const agenticQuestions = {
  goal: text,
  callable_tools: names,
  readable_memories: names,
  writable_memories: names,
  policy_checked_tools: names,
  approval_actions: names,
  may_create_commands: flag,
  may_create_artifacts: flag,
  audit_per_loop: some,
  termination: some,
} as const satisfies FieldKinds

export const swarmQuestions = {
  parent_command: text,
  agent_or_function: oneOf(['agent', 'function']),
  single_or_swarm: oneOf(['single', 'swarm']),
  objective: text,
  coordinator: text,
  allowed_roles: some,
  may_children_spawn: flag,
  max_depth: count,
  tools_per_agent: perRole,
  connectors_per_agent: perRole,
  memory_per_agent: perRole,
  memory_writers: names,
  artifacts_per_agent: perRole,
  join: oneOf(joinStrategies),
  approval_steps: names,
  cancellation_rules: text,
  compensation_rules: text,
  mandatory_audit: some,
} as const satisfies FieldKinds

/** The answers are in the metadata of the task, under `agent` or `swarm`. */
export function findAnswerGaps(questions: FieldKinds, answers: unknown): readonly Gap[] {
  return findWrongValues(questions, answers).map(({ path, isMissing, words }) => ({
    question: path,
    message: isMissing ? 'it is not answered' : `the answer must be ${words}`,
  }))
}

/** The gaps of a task: errors, and warnings about questions with a default. */
export function findTaskGaps(task: TaskSpec, type: CommandType | undefined) {
  const finding =
    (group: string) =>
    ({ question, message }: Gap): CatalogFinding => ({
      rule: `${group}.${question}`,
      subject: task.name,
      message: `${quote(task.name)}, question ${question}: ${message}`,
    })
  const gaps = findMappingGaps(task, type)
  const mode = type?.execution_mode
  const answerGaps =
    mode === 'agentic'
      ? findAnswerGaps(agenticQuestions, task.metadata['agent'])
      : mode === 'swarm'
        ? findAnswerGaps(swarmQuestions, task.metadata['swarm'])
        : []
  return {
    errors: [
      ...gaps.filter(({ question }) => !defaulted.includes(question)).map(finding('mapping')),
      ...answerGaps.map(finding(mode ?? '')),
    ],
    warnings: gaps.filter(({ question }) => defaulted.includes(question)).map(finding('mapping')),
  }
}
