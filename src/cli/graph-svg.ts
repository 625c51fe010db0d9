/** Draws a graph as an SVG that needs nothing else: columns by depth, boxes as wide as their text, lines that pass between boxes. Pure. */
import { cutText } from '#kernel/cut-text'
import { showLine } from '#kernel/visible-text'
import type { DrawnGraph } from './lineage.ts'

type Node = DrawnGraph['nodes'][number]
/** A box, or the point where a line passes a column. */
type Cell = { readonly key: string; readonly node?: Node; readonly before: string[] }
type Place = { readonly x: number; readonly y: number; readonly width: number; readonly height: number }

const BOX: Readonly<Record<'width' | 'height' | 'pass' | 'gapX' | 'gapY' | 'margin' | 'padding', number>> = {
  width: 110,
  height: 46,
  pass: 8,
  gapX: 70,
  gapY: 18,
  margin: 20,
  padding: 12,
}
const LABEL_CHARS_MAX = 32
const SIZE = { label: 13, status: 11 } as const

const fills: Readonly<Record<string, string>> = {
  completed: '#dff3e4',
  failed: '#fbe0dd',
  cancelled: '#eceff3',
  skipped: '#eceff3',
  pending: '#fff',
  queued: '#fff',
}

export function drawSvg({ nodes, edges }: DrawnGraph): string {
  const { columns, routes } = layOut(nodes, edges)
  const { places, width, height } = place(columns)
  const lines = routes.map(({ keys, how }) => {
    const dashes = how === 'ordering' || how === 'version' ? ' stroke-dasharray="5 4"' : ''
    return `<path d="${drawRoute(keys.flatMap((key) => places.get(key) ?? []))}" marker-end="url(#tip)"${dashes}/>`
  })
  const boxes = nodes.flatMap((node) => {
    const at = places.get(node.id)
    return at ? drawBox(node, at) : []
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="${SIZE.label}">`,
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#5b7db1"/></marker></defs>',
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<g fill="none" stroke="#5b7db1">${lines.join('')}</g>`,
    ...boxes,
    '</svg>\n',
  ].join('\n')
}

/** Each node is one column behind the last that leads to it. An edge over several columns passes each of them at a point of its own. */
function layOut(nodes: DrawnGraph['nodes'], edges: DrawnGraph['edges']) {
  const known = edges.filter(({ from, to }) => from !== to)
  const after = Map.groupBy(known, ({ from }) => from)
  const open = new Map(nodes.map(({ id }) => [id, 0]))
  for (const { to } of known) open.set(to, (open.get(to) ?? 0) + 1)
  const depth = new Map(nodes.map(({ id }) => [id, 0]))
  const ready = nodes.flatMap(({ id }) => (open.get(id) === 0 ? [id] : []))
  for (let id = ready.pop(); id !== undefined; id = ready.pop())
    for (const { to } of after.get(id) ?? []) {
      depth.set(to, Math.max(depth.get(to) ?? 0, (depth.get(id) ?? 0) + 1))
      const left = (open.get(to) ?? 0) - 1
      open.set(to, left)
      if (left === 0) ready.push(to)
    }
  const columns: Cell[][] = Array.from(
    { length: nodes.reduce((most, { id }) => Math.max(most, (depth.get(id) ?? 0) + 1), 1) },
    () => [],
  )
  const cells = new Map<string, Cell>()
  const put = (column: number, cell: Cell) => {
    columns[column]?.push(cell)
    cells.set(cell.key, cell)
  }
  for (const node of nodes) put(depth.get(node.id) ?? 0, { key: node.id, node, before: [] })
  const routes = known.flatMap(({ from, to, how }, index) => {
    const [first, last] = [depth.get(from), depth.get(to)]
    if (first === undefined || last === undefined) return []
    const passed = Array.from({ length: Math.max(0, last - first - 1) }, (_, step) => `${index} ${step}`)
    const keys = [from, ...passed, to]
    for (const [step, key] of passed.entries()) put(first + 1 + step, { key, before: [] })
    for (const [step, key] of keys.entries()) if (step > 0) cells.get(key)?.before.push(keys[step - 1] ?? '')
    return [{ keys, how }]
  })
  return { columns: sortColumns(columns), routes }
}

/** A cell stands at the mean height of what leads to it, so that few lines cross. */
function sortColumns(columns: readonly (readonly Cell[])[]): readonly (readonly Cell[])[] {
  const heights = new Map<string, number>()
  return columns.map((cells) => {
    const wanted = new Map(
      cells.map(({ key, before }, index) => {
        const sum = before.reduce((total, each) => total + (heights.get(each) ?? 0), 0)
        return [key, before.length === 0 ? index / cells.length : sum / before.length]
      }),
    )
    const sorted = cells.toSorted((a, b) => (wanted.get(a.key) ?? 0) - (wanted.get(b.key) ?? 0))
    for (const [index, { key }] of sorted.entries()) heights.set(key, (index + 0.5) / sorted.length)
    return sorted
  })
}

/** Every column is as wide as its widest text, and stands in the middle. */
function place(columns: readonly (readonly Cell[])[]) {
  const heightOf = ({ node }: Cell) => (node ? BOX.height : BOX.pass)
  const stackOf = (cells: readonly Cell[]) => cells.reduce((sum, cell) => sum + heightOf(cell) + BOX.gapY, -BOX.gapY)
  const tallest = columns.reduce((most, cells) => Math.max(most, stackOf(cells)), BOX.height)
  const places = new Map<string, Place>()
  let x = BOX.margin
  for (const cells of columns) {
    const width = cells.reduce((most, { node }) => Math.max(most, node ? widthOf(node) : 0), BOX.width)
    let y = BOX.margin + Math.round((tallest - stackOf(cells)) / 2)
    for (const cell of cells) {
      const height = heightOf(cell)
      places.set(cell.key, { x, y, width, height })
      y += height + BOX.gapY
    }
    x += width + BOX.gapX
  }
  return { places, width: x - BOX.gapX + BOX.margin, height: tallest + 2 * BOX.margin }
}

/** Bends only between columns. */
function drawRoute(stops: readonly Place[]): string {
  const middle = ({ y, height }: Place) => y + height / 2
  return stops
    .map((stop, index) => {
      const before = stops[index - 1]
      if (!before) return `M${stop.x + stop.width} ${middle(stop)}`
      const isLast = index === stops.length - 1
      const [fromX, toX] = [before.x + before.width, isLast ? stop.x - 2 : stop.x]
      const bend = BOX.gapX / 2
      const curve = `C${fromX + bend} ${middle(before)} ${toX - bend} ${middle(stop)} ${toX} ${middle(stop)}`
      return isLast ? curve : `${curve} H${stop.x + stop.width}`
    })
    .join(' ')
}

function labelOf({ label }: Node): string {
  const text = showLine(label)
  return text.length > LABEL_CHARS_MAX ? `${cutText(text, LABEL_CHARS_MAX - 1)}…` : text
}
const statusOf = ({ status }: Node) => showLine(status ?? '').replaceAll('_', ' ')

/** Too much room is better than text outside of its box. */
const textWidth = (text: string, size: number) =>
  Array.from(text).reduce((ems, sign) => ems + (sign > '\u2e80' ? 1.05 : /[A-ZMmWw@%…]/u.test(sign) ? 0.85 : 0.6), 0) *
  size
const widthOf = (node: Node) =>
  Math.ceil(Math.max(textWidth(labelOf(node), SIZE.label), textWidth(statusOf(node), SIZE.status))) + 2 * BOX.padding

function drawBox(node: Node, { x, y, width, height }: Place): string {
  const left = x + BOX.padding
  return [
    `<g><title>${xml(`${node.label} ${node.id}`)}</title>`,
    `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="6" fill="${fills[node.status ?? ''] ?? '#e8eef7'}" stroke="#5b7db1"/>`,
    `<text x="${left}" y="${y + 20}" fill="#1b2a41">${xml(labelOf(node))}</text>`,
    `<text x="${left}" y="${y + 36}" fill="#5b6b82" font-size="${SIZE.status}">${xml(statusOf(node))}</text></g>`,
  ].join('')
}

const xml = (text: string) =>
  showLine(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
