/** `concord worker`: one more process that does the work; start as many as the machine and the database carry. */
import type { Command } from 'commander'
import { readConfig } from '#app/config'
import { accept } from '#kernel/refusal'
import { type Cli, stopRequest } from './terminal.ts'

export function addWorker(program: Command, cli: Cli): void {
  program
    .command('worker')
    .description('take turns of the work on this database, without serving the API')
    .addHelpText('after', '\nExample:\n  $ DATABASE_URL=postgres://… concord worker\n')
    .action(
      cli.handle(async () => {
        const { terminal } = cli
        const config = readConfig(terminal.environment, terminal.folder)
        if (!config.ok) return config
        const json = program.opts()['json'] === true
        const { startWorker } = await import('#app/start-worker')
        const started = await startWorker({
          config: config.value,
          environment: terminal.environment,
          folder: terminal.folder,
          onProgress: (step) => (json ? undefined : terminal.err(`${step}\n`)),
        })
        if (!started.ok) return started
        const { database, schemaVersion } = started.value
        if (json) terminal.out(`${JSON.stringify({ ready: true, database, schema_version: schemaVersion })}\n`)
        else terminal.out(`Working on ${database}. Ctrl-C stops it.\n`)
        await stopRequest(terminal.stop)
        if (!json) terminal.err('stopping\n')
        await started.value.close()
        return accept(undefined)
      }),
    )
}
