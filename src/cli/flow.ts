/** `concord flow`: deploys DAGs of datasets, and shows their jobs and tasks. */
import type { dagPageView, dagVersionPageView, flowJobPageView, flowTaskWhyView, readFlowTaskView } from '#domains/flow'
import type { submittedView } from '#domains/commands'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, pathOf, queryOf } from './client.ts'
import { readText } from './json-source.ts'
import { formatFacts } from './layout.ts'
import {
  action,
  listVerb,
  noun,
  type Option,
  type PageFlags,
  paging,
  parseTime,
  showAnswer,
  verb,
  type ViewOf,
} from './noun.ts'
import { awaitOutcome, saySubmitted } from './submit.ts'
import type { Cli, VerbResult } from './terminal.ts'

type DagView = ViewOf<typeof dagPageView>['items'][number]
type JobView = ViewOf<typeof flowJobPageView>['items'][number]
type TaskView = ViewOf<typeof readFlowTaskView>

const ID = 'ftask_0197f3b2c4d57a8e9b0c1d2e3f405161'
const WAIT_DEFAULT_MS = 600_000

type WaitFlags = { key?: string; wait?: boolean; timeout?: number }
const waiting: readonly Option[] = [
  ['--key <key>', 'idempotency key: requests with the same key count as one'],
  ['--wait', 'wait for the outcome; exits 0 if it succeeded, 65 if not, 75 if it waits for people'],
  ['--timeout <duration>', 'how long to wait, like 30s or 2h (default: 10m)', parseTime],
]

async function submitTask(cli: Cli, task_name: string, payload: JsonObject, flags: WaitFlags): Promise<VerbResult> {
  const body = fieldsOf({ task_name, payload, idempotency_key: flags.key })
  const submitted = await askServer<ViewOf<typeof submittedView>>(cli, 'POST', '/commands', body)
  return submitted.ok && flags.wait === true
    ? awaitOutcome(cli, submitted.value, flags.timeout ?? WAIT_DEFAULT_MS)
    : showAnswer(cli, submitted, saySubmitted)
}

/** The YAML as it is, and the name that it gives the DAG. */
async function readDagFile(cli: Cli, file: string): Promise<Decision<{ readonly dag: string; readonly yaml: string }>> {
  const read = await readText(cli.terminal, file)
  if (!read.ok) return read
  const { name, text } = read.value
  const { readYaml } = await import('#app/project')
  const yaml = readYaml(name, new TextEncoder().encode(text))
  if (!yaml.ok) return yaml
  const { dag } = yaml.value.value
  return typeof dag === 'string'
    ? accept({ dag, yaml: text })
    : refuse('flow.dag.invalid', `${name} does not name its DAG.`, {
        path: 'dag',
        hint: 'Begin the file with `dag: <name>`.',
      })
}

const sayTask = ({ task_id, status, attempt }: TaskView) => `${task_id} ${status}, attempt ${attempt}\n`

export const flow = noun('DAGs of datasets, their jobs and tasks', (cli) => {
  const act = (name: 'cancel' | 'retry', description: string) =>
    verb({
      description,
      examples: [`concord flow ${name} ${ID}`],
      ask: (id: string) => askServer<TaskView>(cli, 'POST', pathOf('flow_task', id, `/${name}`)),
      say: sayTask,
    })
  return {
    deploy: action({
      description: 'deploy a DAG from its YAML, as the command Deploy DAG',
      args: [['<file>', 'the YAML of the DAG; - for standard input']],
      options: waiting,
      examples: ['concord flow deploy shop.yaml --wait'],
      async run(file: string, flags: WaitFlags) {
        const read = await readDagFile(cli, file)
        return read.ok ? submitTask(cli, 'Deploy DAG', read.value, flags) : read
      },
    }),
    rollback: action({
      description: 'serve an earlier version of a DAG again, as the command Roll Back DAG',
      args: [
        ['<dag>', 'the name of the DAG'],
        ['<version>', 'its version; `concord flow versions <dag>` lists them'],
      ],
      options: waiting,
      examples: ['concord flow rollback shop dag_0197f3b2c4d57a8e9b0c1d2e3f405161 --wait'],
      run: (dag: string, version: string, flags: WaitFlags) =>
        submitTask(cli, 'Roll Back DAG', { dag, version }, flags),
    }),
    dags: listVerb<DagView, [PageFlags]>({
      description: 'list the DAGs with the version that serves',
      options: paging,
      examples: ['concord flow dags'],
      at: ({ limit, cursor }) => `/flow/dags${queryOf({ limit, cursor })}`,
      none: () => 'There are none. `concord flow deploy <file>` deploys one.',
      columns: {
        dag: ({ dag }) => dag,
        version: ({ version }) => version,
        jobs: ({ jobs }) => String(jobs),
        deployed: ({ deployed_at }, when) => when(deployed_at),
      },
    }),
    'versions <dag>': listVerb<ViewOf<typeof dagVersionPageView>['items'][number], [string, PageFlags]>({
      description: 'list the versions of a DAG, newest first',
      options: paging,
      examples: ['concord flow versions shop'],
      at: (dag, { limit, cursor }) => `/flow/dags/${encodeURIComponent(dag)}/versions${queryOf({ limit, cursor })}`,
      none: () => 'There are no more.',
      columns: {
        version: ({ version }) => version,
        serves: ({ is_current }) => (is_current ? 'yes' : 'no'),
        command: ({ command_id }) => command_id,
        created: ({ created_at }, when) => when(created_at),
      },
    }),
    jobs: listVerb<JobView, [PageFlags & { dag?: string }]>({
      description: 'list the jobs with their state and their open tasks',
      options: [...paging, ['--dag <dag>', 'only jobs of this DAG']],
      examples: ['concord flow jobs --dag shop'],
      at: ({ dag, limit, cursor }) => `/flow/jobs${queryOf({ dag, limit, cursor })}`,
      none: () => 'There are none.',
      columns: {
        dag: ({ dag }) => dag,
        job: ({ job }) => job,
        state: ({ state }) => state,
        queued: ({ queued }) => String(queued),
        running: ({ running }) => String(running),
        reads: ({ inputs }) => inputs.join(', '),
        writes: ({ outputs }) => outputs.join(', '),
        last: ({ last_activity_at }, when) => (last_activity_at === null ? 'not yet' : when(last_activity_at)),
      },
    }),
    tasks: listVerb<TaskView, [PageFlags & { dag?: string; job?: string; status?: string }]>({
      description: 'list the tasks of jobs, newest first',
      options: [
        ...paging,
        ['--dag <dag>', 'only tasks of this DAG'],
        ['--job <job>', 'only tasks of this job'],
        ['--status <status>', 'Queued, Running, Completed, Failed or Canceled'],
      ],
      examples: ['concord flow tasks --job daily --status Failed'],
      at: ({ dag, job, status, limit, cursor }) => `/flow/tasks${queryOf({ dag, job, status, limit, cursor })}`,
      none: () => 'There are none.',
      columns: {
        task: ({ task_id }) => task_id,
        job: ({ dag, job }) => `${dag}.${job}`,
        status: ({ status }) => status,
        attempt: ({ attempt }) => String(attempt),
        partitions: ({ partitions }) => partitions.join(', '),
        created: ({ created_at }, when) => when(created_at),
      },
      below: ({ error, status }) => (status === 'Failed' ? error : ''),
    }),
    'why <id>': verb({
      description: 'show why a task exists and why it has its status',
      examples: [`concord flow why ${ID}`],
      ask: (id: string) => askServer<ViewOf<typeof flowTaskWhyView>>(cli, 'GET', pathOf('flow_task', id, '/why')),
      say: ({ task, cause, standing, inputs }) =>
        formatFacts(cli.terminal, 8, [
          ['task', `${task.task_id} of ${task.dag}.${task.job}, ${task.status}`],
          ['cause', showLine(cause)],
          ['now', showLine(standing)],
          ['key', task.dedupe_key === null ? 'none' : showLine(task.dedupe_key)],
          ...inputs.map(
            ({ dataset, partition }, index) =>
              [index === 0 ? 'read' : '', showLine(`${dataset} ${partition ?? ''}`)] as const,
          ),
        ]),
    }),
    'cancel <id>': act('cancel', 'cancel a task that has not ended'),
    'retry <id>': act('retry', 'begin the next attempt of a failed task now, also if none was left'),
  }
})
