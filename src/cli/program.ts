/** The command tree of `concord` and its exit codes. */
import { type Command, CommanderError } from 'commander'
import { version } from '#app/version'
import { type Refusal, type RefusalKind, refuse } from '#kernel/refusal'
import { kindOf } from '#refusals'
import { approvalVerbs } from './approvals.ts'
import { artifacts } from './artifacts.ts'
import { agents } from './agents.ts'
import { board } from './board.ts'
import { budgets } from './budgets.ts'
import { swarms } from './swarms.ts'
import { commands, commandVerbs } from './commands.ts'
import { completion } from './completion.ts'
import { connectVerb } from './connect.ts'
import { connectors } from './connectors.ts'
import { dev } from './dev.ts'
import { doctor } from './doctor.ts'
import { events } from './events.ts'
import { history } from './history.ts'
import { init } from './init.ts'
import { jobGroups } from './job-groups.ts'
import { jobTemplates } from './job-templates.ts'
import { jobs } from './jobs.ts'
import { keys } from './keys.ts'
import { mcp } from './mcp.ts'
import { memory } from './memory.ts'
import { missions } from './missions.ts'
import { migrateNoun } from './migrate.ts'
import { addVerbs, type Verbs } from './noun.ts'
import { notifications } from './notifications.ts'
import { people } from './people.ts'
import { preflight } from './preflight.ts'
import { propose } from './propose.ts'
import { recipes } from './recipes.ts'
import { reservations } from './reservations.ts'
import { scheduler } from './scheduler.ts'
import { flow } from './flow.ts'
import { schedules } from './schedules.ts'
import { signals } from './signals.ts'
import { stop } from './stop.ts'
import { stuck } from './stuck.ts'
import { submit } from './submit.ts'
import { taskTypes } from './task-types.ts'
import { type Cli, showRefusal, type Terminal } from './terminal.ts'
import { up, worker } from './up.ts'
import { ConcordCommand, UsageMistake } from './usage.ts'

/** The codes of sysexits.h, so that scripts can distinguish a typing mistake from a server that is down. */
const EXIT: Readonly<Record<RefusalKind, number>> = {
  usage: 64,
  method: 64,
  malformed: 65,
  invalid: 65,
  not_found: 65,
  gone: 65,
  too_large: 65,
  unsupported: 65,
  range: 65,
  headers_too_large: 65,
  unavailable: 69,
  internal: 70,
  conflict: 75,
  rate: 75,
  timeout: 75,
  unauthenticated: 77,
  forbidden: 77,
  configuration: 78,
}

export function exitCodeOf(refusal: Pick<Refusal, 'code'>): number {
  return EXIT[kindOf(refusal.code)]
}

const HELP = ['help [command]', 'show the help of a command'] as const

/** Gives every noun its own help command; an inherited one would have the heading of the program. */
function giveOwnHelp(command: Command): void {
  for (const noun of command.commands.filter(({ commands }) => commands.length > 0)) {
    noun.helpCommand(...HELP)
    giveOwnHelp(noun)
  }
}

function groupsOf(cli: Cli): Readonly<Record<string, Verbs>> {
  return {
    'Run the service:': {
      init: init(cli),
      dev: dev(cli),
      up: up(cli),
      worker: worker(cli),
      doctor: doctor(cli),
      migrate: migrateNoun,
      stuck: stuck(cli),
      stop: stop(cli),
      keys,
      people,
      events,
      history,
      completion: completion(cli),
    },
    'Submit and follow work:': {
      'task-types': taskTypes,
      preflight: preflight(cli),
      submit: submit(cli),
      propose: propose(cli),
      mcp: mcp(cli),
      connect: connectVerb(cli),
      commands,
      ...commandVerbs(cli),
      ...approvalVerbs(cli),
      signals,
      notifications,
      schedules,
      artifacts,
      agents,
      budgets,
      swarms,
      missions,
      recipes,
      flow,
      board: board(cli),
      connectors,
      memory,
    },
    'Local jobs, without a server:': {
      jobs,
      'job-groups': jobGroups,
      'job-templates': jobTemplates,
      reservations,
      scheduler,
    },
  }
}

export function createProgram(terminal: Terminal): { program: Command; exitCode: () => number } {
  let exitCode = 0
  const program = new ConcordCommand('concord')
    .description('Runs the work of people, agents and jobs under contract.')
    .version(version, '-v, --version', 'print the version')
    .option('--json', 'answer in JSON (anywhere in the command)')
    .configureOutput({ writeOut: terminal.out, writeErr: terminal.err, getOutHasColors: () => terminal.isTty })
    .showSuggestionAfterError()
    .exitOverride()
  const cli: Cli = {
    terminal,
    isJson: () => program.opts()['json'] === true,
    handle:
      (work) =>
      async (...args) => {
        const outcome = await work(...args)
        if (outcome.ok) return
        showRefusal(terminal, outcome, cli.isJson())
        exitCode = exitCodeOf(outcome)
      },
  }
  // Defined here, the help command belongs to the first group instead of one of its own.
  program.commandsGroup('Run the service:').helpCommand(...HELP)
  for (const [heading, verbs] of Object.entries(groupsOf(cli))) {
    program.commandsGroup(heading)
    addVerbs(program, cli, verbs)
  }
  giveOwnHelp(program)
  program.addHelpText(
    'after',
    '\nExamples:\n  $ concord up\n  $ concord keys create --name ci --role writer\n  $ concord submit "Generate Report" --file report.json --wait\n  $ concord inbox\n  $ concord events tail\n',
  )
  return { program, exitCode: () => exitCode }
}

/** Moves `--json` to the front, because the parser accepts it only there and people write it last. */
function jsonFirst(args: readonly string[]): string[] {
  const end = args.indexOf('--')
  const own = end < 0 ? args : args.slice(0, end)
  if (!own.includes('--json')) return [...args]
  return ['--json', ...own.filter((arg) => arg !== '--json'), ...(end < 0 ? [] : args.slice(end))]
}

export async function runProgram(args: readonly string[], terminal: Terminal): Promise<number> {
  const { program, exitCode } = createProgram(terminal)
  try {
    await program.parseAsync(jsonFirst(args), { from: 'user' })
    return exitCode()
  } catch (error) {
    if (error instanceof UsageMistake) {
      showRefusal(terminal, error.refusal, program.opts()['json'] === true)
      return exitCodeOf(error.refusal)
    }
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 64
    const message = error instanceof Error ? error.message : String(error)
    const hint = 'This is a bug. `concord doctor` checks the installation.'
    showRefusal(terminal, refuse('internal_error', message, { hint }), program.opts()['json'] === true)
    return 70
  }
}
