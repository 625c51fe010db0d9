/** `concord task-types`: what can be submitted here, each with an example that can be copied. */
import type { Command } from 'commander'
import { showLine } from '#kernel/visible-text'
import { askServer, showAnswer } from './ask-server.ts'
import { examplePayload } from './example-payload.ts'
import { type Cli, formatTable } from './terminal.ts'

type TaskTypeView = {
  readonly task_name: string
  readonly risk_level: string
  readonly approval_required: boolean
  readonly ingress_types: readonly string[]
  readonly required_inputs: readonly string[]
  readonly payload_schema: Readonly<Record<string, unknown>>
}

export function addTaskTypes(program: Command, cli: Cli): void {
  program
    .command('task-types')
    .description('list what can be submitted here, and what of it is open to agents')
    .addHelpText('after', '\nExample:\n  $ concord task-types\n')
    .action(
      cli.handle(async () => {
        const listed = await askServer<{ items: readonly TaskTypeView[] }>(cli, 'GET', '/task-types')
        return showAnswer(cli, program, listed, ({ items }) => {
          if (items.length === 0) cli.terminal.err('Nothing can be submitted here: this server has no tasks.\n')
          else
            cli.terminal.out(formatTable(['task', 'risk', 'approval', 'agents', 'example payload'], items.map(taskRow)))
        })
      }),
    )
}

function taskRow({ task_name, risk_level, approval_required, ingress_types, ...task }: TaskTypeView): string[] {
  const example = JSON.stringify(examplePayload(task.payload_schema, task.required_inputs))
  // Policy may still ask somebody: the contract alone cannot promise that nobody is asked.
  const approval = approval_required ? 'always' : 'by policy'
  const agents = ingress_types.includes('agent_action') ? 'may ask' : '-'
  return [task_name, risk_level, approval, agents, example].map(showLine)
}
