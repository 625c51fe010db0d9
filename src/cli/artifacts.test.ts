/** Artifacts on a terminal: lists, one, its content checked into a file, and its lineage as text and as a graph. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'
import type { ArtifactView } from '#domains/artifacts'
import { drawMermaid, drawText, type LineageView } from './lineage.ts'

const ID = 'art_0197f3b2c4d57a8e9b0c1d2e3f405180'
const content = { total: 1 }
const bytes = JSON.stringify(content)
const checksum = `sha256:${createHash('sha256').update(bytes).digest('hex')}`

function aView(more: Partial<ArtifactView> = {}): ArtifactView {
  return {
    artifact_id: ID,
    artifact_type: 'report',
    title: 'Revenue of May',
    version: 2,
    status: 'ready',
    next: ['published', 'archived'],
    command_id: COMMAND_ID,
    domain_effect_id: null,
    agent_run_id: null,
    labels: [],
    created_by: 'user_0197f3b2c4d57a8e9b0c1d2e3f405163',
    created_at: '2026-05-01T10:00:00.000Z',
    checksum,
    content_type: 'application/json',
    size_bytes: bytes.length,
    file_name: 'report.json',
    visibility: 'private',
    data_class: 'internal',
    published_to: null,
    publications: [],
    superseded_by: null,
    retain_until: null,
    hold_reason: 'an audit',
    has_content: true,
    sources: [{ kind: 'dataset', id: 'ds_0197f3b2c4d57a8e9b0c1d2e3f405180' }],
    metadata: {},
    ...more,
  }
}

const node = (id: string, kind: 'artifact' | 'command' = 'artifact', label = id) => ({
  id,
  kind,
  label,
  status: null,
  version: null,
})
const lineage: LineageView = {
  root: 'art_b',
  nodes: [
    node('cmd_1', 'command'),
    node('art_a', 'artifact', 'A "quoted" <b>'),
    node('art_b'),
    node('art_c'),
    node('art_d'),
  ],
  edges: [
    { from: 'cmd_1', to: 'art_b', how: 'made' },
    { from: 'art_a', to: 'art_b', how: 'source' },
    { from: 'art_b', to: 'art_c', how: 'source' },
    { from: 'art_a', to: 'art_c', how: 'source' },
    { from: 'art_c', to: 'art_d', how: 'version' },
  ],
  is_complete: false,
}

describe('concord artifacts', () => {
  let folder: string
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'concord-cli-artifacts-'))
  })
  after(() => rm(folder, { recursive: true, force: true }))

  const one = `GET /artifacts/${ID}`

  test('list: a table for people, the page for machines, filters in the request', async () => {
    const line = `GET /artifacts?artifact_type=report&status=ready&limit=5`
    const page = { items: [aView({ title: 'x\u001b[31my' })], next_cursor: 'c1' }
    const args = ['artifacts', 'list', '--type', 'report', '--status', 'ready', '--limit', '5']
    const { code, out, err } = await runAgainst({ [line]: page }, args)
    assert.equal(code, 0, err)
    assert.match(out, new RegExp(`${ID} +report +ready +${bytes.length} `))
    assert.ok(!out.includes('\u001b'))
    assert.match(err, /--cursor c1/)
    assert.deepEqual(JSON.parse((await runAgainst({ [line]: page }, [...args, '--json'])).out), page)
  })

  test('show says what it is, what can happen, who sees it, and how to fetch it', async () => {
    const { out, code } = await runAgainst({ [one]: aView() }, ['artifacts', 'show', ID])
    assert.equal(code, 0)
    for (const said of [
      /^Revenue of May {2}art_/,
      /status +ready; can become published, archived/,
      /seen by +its creator and administrators/,
      /held +an audit/,
      /from +ds_/,
      new RegExp(`concord artifacts get ${ID}`),
    ])
      assert.match(out, said)
  })

  test('one that is not there: the list of artifacts is the next step, not the inbox', async () => {
    const answers = { [`GET /artifacts/${ID}`]: new Problem(404, 'row.not_found') }
    const { code, err } = await runAgainst(answers, ['artifacts', 'show', ID])
    assert.equal(code, 65)
    assert.match(err, /concord artifacts list/)
    assert.doesNotMatch(err, /inbox/)
  })

  test('an id of another kind is refused without asking the server', async () => {
    const { code, err, heard } = await runAgainst({}, ['artifacts', 'show', COMMAND_ID])
    assert.deepEqual([code, heard.length], [65, 0])
    assert.match(err, /This is the id of a command\. `concord artifacts list`/)
  })

  test('get writes the content, checked, and nothing over a file that is there', async () => {
    const answers = { [one]: aView(), [`${one}/content`]: content }
    const first = await runAgainst(answers, ['artifacts', 'get', ID], { folder })
    assert.equal(first.code, 0, first.err)
    assert.ok(first.out.startsWith(`saved ${join(folder, 'report.json')} (`), first.out)
    assert.equal(await readFile(join(folder, 'report.json'), 'utf8'), bytes)
    await writeFile(join(folder, 'report.json'), 'mine')
    const again = await runAgainst(answers, ['artifacts', 'get', ID], { folder })
    assert.equal(again.code, 64)
    assert.equal(await readFile(join(folder, 'report.json'), 'utf8'), 'mine')
    const forced = await runAgainst(answers, ['artifacts', 'get', ID, '--force', '--json'], { folder })
    assert.deepEqual(JSON.parse(forced.out), { file: join(folder, 'report.json'), size_bytes: bytes.length, checksum })
  })

  test('get keeps nothing of content that is wrong, cut or missing, and follows no folder in a name', async () => {
    const out = join(folder, 'wrong.json')
    const tried = async (answer: unknown) => {
      const { code, err } = await runAgainst({ [one]: aView(), [`${one}/content`]: answer }, [
        'artifacts',
        'get',
        ID,
        '--out',
        out,
      ])
      assert.notEqual(code, 0)
      assert.ok(!(await readdir(folder)).some((name) => name.startsWith('wrong')))
      return /code +(\S+)/.exec(err)?.[1]
    }
    assert.equal(await tried({ total: 2 }), 'artifacts.content.altered')
    assert.equal(await tried('hang up'), 'app.server.unreachable')
    assert.equal(await tried(new Problem(500, 'artifacts.content.missing')), 'artifacts.content.missing')
    const sly = { [one]: aView({ file_name: '../../sly.json' }), [`${one}/content`]: content }
    assert.equal((await runAgainst(sly, ['artifacts', 'get', ID], { folder })).code, 0)
    assert.equal(await readFile(join(folder, 'sly.json'), 'utf8'), bytes)
  })

  test('lineage as text, as a graph and as JSON', async () => {
    const answers = { [`${one}/lineage`]: lineage }
    const text = await runAgainst(answers, ['artifacts', 'lineage', ID])
    assert.equal(text.out, drawText(lineage))
    const graph = await runAgainst(answers, ['artifacts', 'lineage', ID, '--mermaid'])
    assert.equal(graph.out, drawMermaid(lineage))
    const json = await runAgainst(answers, ['artifacts', 'lineage', ID, '--json'])
    assert.deepEqual(JSON.parse(json.out), lineage)
  })
})

describe('pictures of a lineage', () => {
  test('a circle ends all the same', () => {
    const edges = [...lineage.edges, { from: 'art_d', to: 'art_a', how: 'source' as const }]
    assert.ok(drawText({ ...lineage, edges }).length > 0)
  })

  test('as text: above, below, and that there is more', () => {
    assert.equal(
      drawText(lineage),
      `art_b  art_b
  made from
    cmd_1  cmd_1
    A "quoted" <b>  art_a
  used for
    art_c  art_c
      art_d  art_d
  … there is more than is shown
`,
    )
  })

  test('foreign text cannot break out of a graph', () => {
    assert.match(drawMermaid(lineage), /n1\["A #quot;quoted#quot; <b><br\/>art_a"\]/)
    assert.match(drawMermaid(lineage), /style n\d stroke-width:3px\n$/)
  })
})
