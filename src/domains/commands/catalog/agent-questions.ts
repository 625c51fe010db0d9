/**
 * The questions that an agentic task and a swarm have to answer before they are registered, beside the twelve of every task. The
 * answers stand in the task's metadata, under `agent` or `swarm`; each gap has the question's name. Pure.
 */
import { joinStrategies } from '#kernel/machines/agent'
import { quote } from '#kernel/refusal'
import type { CommandType } from './definitions.ts'
import { type CatalogFinding, finding } from './finding.ts'
import type { TaskSpec } from './task-spec.ts'

/** `names` may be empty: "none" is an answer, silence is not. `each` has an answer for every allowed role. */
type Form = 'text' | 'names' | 'some' | 'flag' | 'count' | 'each' | readonly string[]

export const agenticQuestions = {
  goal: 'text',
  callable_tools: 'names',
  readable_memories: 'names',
  writable_memories: 'names',
  policy_checked_tools: 'names',
  approval_actions: 'names',
  may_create_commands: 'flag',
  may_create_artifacts: 'flag',
  audit_per_loop: 'some',
  termination: 'some',
} as const satisfies Readonly<Record<string, Form>>
export type AgenticQuestion = keyof typeof agenticQuestions

export const swarmQuestions = {
  parent_command: 'text',
  agent_or_function: ['agent', 'function'],
  single_or_swarm: ['single', 'swarm'],
  objective: 'text',
  coordinator: 'text',
  allowed_roles: 'some',
  may_children_spawn: 'flag',
  max_depth: 'count',
  tools_per_agent: 'each',
  connectors_per_agent: 'each',
  memory_per_agent: 'each',
  memory_writers: 'names',
  artifacts_per_agent: 'each',
  join: joinStrategies,
  approval_steps: 'names',
  cancellation_rules: 'text',
  compensation_rules: 'text',
  mandatory_audit: 'some',
} as const satisfies Readonly<Record<string, Form>>
export type SwarmQuestion = keyof typeof swarmQuestions

export type QuestionGap<Q extends string> = { readonly question: Q; readonly message: string }

export function findAgenticGaps(answers: unknown): readonly QuestionGap<AgenticQuestion>[] {
  return gapsOf(agenticQuestions, answers)
}

export function findSwarmGaps(answers: unknown): readonly QuestionGap<SwarmQuestion>[] {
  return gapsOf(swarmQuestions, answers)
}

type Answers = Readonly<Record<string, unknown>>
const objectOf = (value: unknown): Answers =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Answers) : {}

function gapsOf<Q extends string>(questions: Readonly<Record<Q, Form>>, given: unknown): readonly QuestionGap<Q>[] {
  const answers = objectOf(given)
  const roles = isNames(answers['allowed_roles']) ? answers['allowed_roles'] : []
  return (Object.keys(questions) as Q[]).flatMap((question) => {
    const answer = Object.hasOwn(answers, question) ? answers[question] : undefined
    const wrong = answer === undefined ? 'it is not answered' : faultOf(questions[question], answer, roles)
    return wrong === undefined ? [] : [{ question, message: wrong }]
  })
}

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== ''
const isNames = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every(isText)

function faultOf(form: Form, answer: unknown, roles: readonly string[]): string | undefined {
  switch (form) {
    case 'text':
      return isText(answer) ? undefined : 'its answer is a text'
    case 'names':
      return isNames(answer) ? undefined : 'its answer is a list of names, empty for none'
    case 'some':
      return isNames(answer) && answer.length > 0 ? undefined : 'its answer is a list with at least one name'
    case 'flag':
      return typeof answer === 'boolean' ? undefined : 'its answer is true or false'
    case 'count':
      return Number.isSafeInteger(answer) && Number(answer) >= 0 ? undefined : 'its answer is a whole number from 0'
    case 'each': {
      const silent = roles.filter((role) => !isNames(objectOf(answer)[role]))
      return silent.length === 0 ? undefined : `no list of names is given for ${silent.map(quote).join(', ')}`
    }
    default:
      return isText(answer) && form.includes(answer) ? undefined : `its answer is one of ${form.join(', ')}`
  }
}

/** Asked of the types that say of themselves that an agent or a swarm runs them. */
export function findAgentGaps(task: TaskSpec, type: CommandType | undefined): readonly CatalogFinding[] {
  const mode = type?.execution_mode
  const say = ({ question, message }: QuestionGap<string>) =>
    finding(`${mode}.${question}`, task.name, `${quote(task.name)}, question ${question}: ${message}`)
  if (mode === 'agentic') return findAgenticGaps(task.metadata['agent']).map(say)
  return mode === 'swarm' ? findSwarmGaps(task.metadata['swarm']).map(say) : []
}
