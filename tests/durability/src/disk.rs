//! The disk below a process, and what a power cut leaves of it.
//!
//! What is certain after a cut: the bytes of a file that were written before a successful sync of the file began, and
//! the names in a folder that were changed before a successful sync of the folder began. Everything else is there or
//! not: each sector of a write for itself, each name for itself, in any order. Two things are kept: changes of one name
//! happen in their order, and a rename takes place as a whole. The data of a file whose rename is kept may be lost.
//!
//! After a failed sync the system may count as clean what it could not write. So what was pending then stays doubtful,
//! whatever syncs follow; only a later write of the same bytes makes them certain.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use crate::{
    chance::{Chance, Style},
    image::Image,
    record::Event,
};

/// A file or folder, by its place in [`Disk::objects`]. The root is 0.
type Object = usize;

/// A name in a folder.
type Slot = (Object, String);

/// Whether a change outlasts a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// No sync has covered it yet.
    Open,
    /// A sync has covered it.
    Certain,
    /// A sync that covered it has failed.
    Doubtful,
}

#[derive(Debug)]
enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    Cut(u64),
}

#[derive(Debug, Default)]
struct FileState {
    /// What is certain.
    base: Vec<u8>,
    /// What came after it, in order.
    pending: Vec<(u64, Held, Change)>,
}

#[derive(Debug)]
enum Node {
    File(FileState),
    Folder,
}

/// A change of names: each slot gets an object or none, all at once.
#[derive(Debug)]
struct NameChange {
    at: u64,
    held: Held,
    slots: Vec<(Slot, Option<Object>)>,
    /// The folder whose sync makes it certain.
    folder: Object,
}

/// The disk at one moment of a record.
#[derive(Debug)]
pub(crate) struct Disk {
    objects: Vec<Node>,
    inodes: HashMap<u64, Object>,
    /// The names as the process sees them.
    names: BTreeMap<Slot, Object>,
    /// The names that are certain.
    base: BTreeMap<Slot, Object>,
    pending: Vec<NameChange>,
    syncs: HashMap<u64, (Object, u64)>,
    now: u64,
}

impl Disk {
    /// An empty disk.
    pub(crate) fn new() -> Disk {
        Disk {
            objects: vec![Node::Folder],
            inodes: HashMap::new(),
            names: BTreeMap::new(),
            base: BTreeMap::new(),
            pending: Vec::new(),
            syncs: HashMap::new(),
            now: 0,
        }
    }

    fn add(&mut self, inode: u64, node: Node) -> Object {
        self.objects.push(node);
        let object = self.objects.len() - 1;
        self.inodes.insert(inode, object);
        object
    }

    fn folder_and_name(&self, path: &str) -> Result<Slot, String> {
        let mut folder = 0;
        let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".").peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return Ok((folder, part.to_owned()));
            }
            let below = self.names.get(&(folder, part.to_owned()));
            folder = *below.ok_or_else(|| format!("there is no folder {part} of {path}"))?;
        }
        Err(format!("{path} is the root"))
    }

    fn file(&mut self, inode: u64) -> Result<&mut FileState, String> {
        let object = self.inodes.get(&inode).copied();
        match object.and_then(|object| self.objects.get_mut(object)) {
            Some(Node::File(file)) => Ok(file),
            _ => Err(format!("inode {inode} is no file that was opened")),
        }
    }

    fn change_names(&mut self, folder: Object, slots: Vec<(Slot, Option<Object>)>) {
        for (slot, object) in &slots {
            match object {
                Some(object) => self.names.insert(slot.clone(), *object),
                None => self.names.remove(slot),
            };
        }
        self.pending.push(NameChange { at: self.now, held: Held::Open, slots, folder });
    }

    fn change(&mut self, inode: u64, change: Change) -> Result<(), String> {
        let now = self.now;
        self.file(inode)?.pending.push((now, Held::Open, change));
        Ok(())
    }

    /// Applies the next operation of a record.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<(), String> {
        self.now += 1;
        match event {
            Event::Open { inode, truncated, path } => {
                let slot = self.folder_and_name(path)?;
                if !self.names.contains_key(&slot) {
                    let file = self.add(*inode, Node::File(FileState::default()));
                    self.change_names(slot.0, vec![(slot, Some(file))]);
                } else if *truncated {
                    self.change(*inode, Change::Cut(0))?;
                }
            }
            Event::Write { inode, offset, bytes } => {
                self.change(*inode, Change::Write { offset: *offset, bytes: Arc::clone(bytes) })?;
            }
            Event::Cut { inode, length } => self.change(*inode, Change::Cut(*length))?,
            Event::SyncBegin { sync, inode } => {
                let object = self.inodes.get(inode).copied();
                let object = object.ok_or_else(|| format!("inode {inode} was synced and never opened"))?;
                self.syncs.insert(*sync, (object, self.now));
            }
            Event::SyncEnd { sync, done } => {
                let (object, began) = self.syncs.remove(sync).ok_or("a sync ended that never began")?;
                self.end_sync(object, began, if *done { Held::Certain } else { Held::Doubtful });
            }
            Event::Rename { from, to } => {
                let (from, to) = (self.folder_and_name(from)?, self.folder_and_name(to)?);
                let object =
                    self.names.get(&from).copied().ok_or_else(|| format!("{from:?} is renamed and not there"))?;
                self.change_names(to.0, vec![(from, None), (to, Some(object))]);
            }
            Event::Unlink(path) | Event::RemoveFolder(path) => {
                let slot = self.folder_and_name(path)?;
                self.change_names(slot.0, vec![(slot, None)]);
            }
            // The root was there before.
            Event::MakeFolder { inode, path } if path.is_empty() => drop(self.inodes.insert(*inode, 0)),
            Event::MakeFolder { inode, path } => {
                let slot = self.folder_and_name(path)?;
                let folder = self.add(*inode, Node::Folder);
                self.change_names(slot.0, vec![(slot, Some(folder))]);
            }
            Event::Failed | Event::Mark(_) => {}
        }
        Ok(())
    }

    fn end_sync(&mut self, object: Object, began: u64, held: Held) {
        let covers = |at: u64, now: Held| at < began && now == Held::Open;
        match self.objects.get_mut(object) {
            Some(Node::File(file)) => {
                for (at, now, _) in &mut file.pending {
                    if covers(*at, *now) {
                        *now = held;
                    }
                }
                file.settle();
            }
            _ => {
                for change in &mut self.pending {
                    if change.folder == object && covers(change.at, change.held) {
                        change.held = held;
                    }
                }
                self.settle_names();
            }
        }
    }

    /// Moves what is certain, and not behind something that is not, to the base.
    fn settle_names(&mut self) {
        let mut blocked: HashSet<Slot> = HashSet::new();
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            let behind = change.slots.iter().any(|(slot, _)| blocked.contains(slot));
            if change.held == Held::Certain && !behind {
                set(&mut self.base, &change);
            } else {
                blocked.extend(change.slots.iter().map(|(slot, _)| slot.clone()));
                self.pending.push(change);
            }
        }
    }

    /// What a cut leaves now.
    pub(crate) fn cut(&self, chance: &mut Chance) -> Image {
        let style = chance.style();
        let mut names = self.base.clone();
        let mut lost: HashSet<&Slot> = HashSet::new();
        for change in &self.pending {
            let free = !change.slots.iter().any(|(slot, _)| lost.contains(slot));
            if change.held == Held::Certain || (free && chance.keeps(style)) {
                change.slots.iter().for_each(|(slot, _)| {
                    lost.remove(slot);
                });
                set(&mut names, change);
            } else {
                lost.extend(change.slots.iter().map(|(slot, _)| slot));
            }
        }
        let mut image = Image::new();
        self.fill(&mut image, &names, 0, "", chance);
        image
    }

    /// What the process sees now.
    pub(crate) fn seen(&self) -> Image {
        let mut image = Image::new();
        self.fill(&mut image, &self.names, 0, "", &mut Chance::keeping_all());
        image
    }

    fn fill(&self, image: &mut Image, names: &BTreeMap<Slot, Object>, folder: Object, path: &str, chance: &mut Chance) {
        for ((_, name), object) in names.range((folder, String::new())..(folder + 1, String::new())) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            match self.objects.get(*object) {
                Some(Node::File(file)) => {
                    image.insert(path, Some(file.cut(chance)));
                }
                _ => {
                    image.insert(path.clone(), None);
                    self.fill(image, names, *object, &path, chance);
                }
            }
        }
    }
}

fn set(names: &mut BTreeMap<Slot, Object>, change: &NameChange) {
    for (slot, object) in &change.slots {
        match object {
            Some(object) => names.insert(slot.clone(), *object),
            None => names.remove(slot),
        };
    }
}

impl FileState {
    fn settle(&mut self) {
        let certain = self.pending.iter().take_while(|(_, held, _)| *held == Held::Certain).count();
        for (_, _, change) in self.pending.drain(..certain) {
            match change {
                Change::Write { offset, bytes } => put(&mut self.base, offset as usize, &bytes),
                Change::Cut(length) => self.base.resize(length as usize, 0),
            }
        }
    }

    /// The bytes after a cut.
    fn cut(&self, chance: &mut Chance) -> Vec<u8> {
        let mut bytes = self.base.clone();
        let style = chance.style();
        for (_, held, change) in &self.pending {
            let certain = *held == Held::Certain;
            match change {
                Change::Write { offset, bytes: written } => {
                    write(&mut bytes, *offset as usize, written, if certain { Style::Keep } else { style }, chance);
                }
                Change::Cut(length) => {
                    if certain || chance.keeps(style) {
                        bytes.resize(*length as usize, 0);
                    }
                }
            }
        }
        bytes
    }
}

/// Writes those sectors that a cut keeps.
fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8], style: Style, chance: &mut Chance) {
    if style == Style::Keep {
        return put(bytes, offset, written);
    }
    let mut at = 0;
    while at < written.len() {
        let sector = chance.sector();
        let end = (((offset + at) / sector + 1) * sector - offset).min(written.len());
        let part = written.get(at..end).unwrap_or_default();
        if chance.keeps(style) {
            put(bytes, offset + at, part);
        } else if offset + end > bytes.len() && chance.extends() {
            // The length was written and the data was not.
            let old = bytes.len();
            bytes.resize(offset + end, 0);
            chance.fill(bytes.get_mut(old.max(offset + at)..).unwrap_or_default());
        }
        at = end;
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, part: &[u8]) {
    let end = offset + part.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(place) = bytes.get_mut(offset..end) {
        place.copy_from_slice(part);
    }
}
