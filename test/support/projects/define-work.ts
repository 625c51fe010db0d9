/** A task with its command type and its function, under one name and with the contract that most tests want. */
import { defineCommandType, type Definition, defineFunction, defineTask } from '../../../src/domains/commands/index.ts'
import { errorClasses } from '../../../src/kernel/error-classes.ts'

type CommandTypeInput = Parameters<typeof defineCommandType>[0]
type FunctionInput = Parameters<typeof defineFunction>[0]
type TaskInput = Parameters<typeof defineTask>[0]

export const contract = {
  error_classes: errorClasses,
  cancellable_by: ['requester', 'admin'],
  audit: ['command_created', 'policy_evaluated'],
} as const satisfies Partial<CommandTypeInput>

export type Work = Pick<FunctionInput, 'plan' | 'result' | 'reads_facts'> &
  Pick<CommandTypeInput, 'payload'> & {
    /** The name of the task. The command type and the function have the same name in snake case. */
    readonly name: string
    readonly effects: readonly string[]
    readonly type?: Partial<CommandTypeInput>
    readonly task?: Partial<TaskInput>
  }

export function defineWork({ name, payload, effects, type = {}, task = {}, ...fn }: Work): Definition[] {
  const typeName = name.toLowerCase().replaceAll(' ', '_')
  return [
    defineFunction({ name: typeName, ...fn }),
    defineCommandType({
      name: typeName,
      description: `${name}.`,
      payload,
      side_effects: [...effects],
      ...contract,
      ...type,
    }),
    defineTask({
      name,
      description: `${name}.`,
      command_type: typeName,
      function_name: typeName,
      ingress_types: ['user_request'],
      async_required: true,
      policy_checks: ['permission'],
      ...task,
    }),
  ]
}
